// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package sqlite

import "syscall"

// networkTypes are file systems that several machines can have mounted at once,
// by the numbers that Linux gives them (statfs(2)). FUSE is among them since it
// may be anything.
var networkTypes = map[int64]string{
	0x6969:     "nfs",
	0x517b:     "smb",
	0xfe534d42: "smb2",
	0xff534d42: "cifs",
	0x5346414f: "afs",
	0x73757245: "coda",
	0x00c36400: "ceph",
	0x0bd00bd0: "lustre",
	0x01161970: "gfs2",
	0x7461636f: "ocfs2",
	0x01021997: "9p",
	0x65735546: "fuse",
}

// onNetwork tells whether a file is on a network file system.
func onNetwork(path string) (bool, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return false, err
	}
	return isNetworkType(int64(fs.Type)), nil //nolint:unconvert // Some platforms have it as an int32.
}

func isNetworkType(magic int64) bool {
	_, found := networkTypes[magic&0xffffffff]
	return found
}
