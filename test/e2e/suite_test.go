// Copyright The Leasehold Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import "testing"

// TestCases are independent of each other, and of which manager replica leads.
func TestCases(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Apply":              testApply,
		"Kill":               testKill,
		"Frozen":             testFrozen,
		"FrozenForbid":       testFrozenForbid,
		"CutOff":             testCutOff,
		"KubeletStopped":     testKubeletStopped,
		"SlowStart":          testSlowStart,
		"Completes":          testCompletes,
		"CompletesOnFailure": testCompletesOnFailure,
		"BackoffLimit":       testBackoffLimit,
		"TakeUp":             testTakeUp,
		"BadSpecs":           testBadSpecs,
		"UnmanagedLease":     testUnmanagedLease,
		"Deletion":           testDeletion,
		"NamespaceDeletion":  testNamespaceDeletion,
		"Standbys":           testStandbys,
		"RollOut":            testRollOut,
		"Suspend":            testSuspend,
		"MinToken":           testMinToken,
		"NodeFrozen":         testNodeFrozen,
		"StubbornWork":       testStubbornWork,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// TestManagers meddles with the manager, on which all other cases depend.
func TestManagers(t *testing.T) {
	t.Run("RollingRestart", testRollingRestart)
	t.Run("LeaderKilled", testLeaderKilled)
	t.Run("Outage", testOutage)
	t.Run("Crash", testCrashes)
	t.Run("TwoAtOnce", testTwoAtOnce)
	t.Run("StoreRestored", testStoreRestored)
}

// TestChart installs Leasehold in the other way. It comes last.
func TestChart(t *testing.T) { testChart(t) }
