// Package check holds the manifests against the types of the Kubernetes API, and against what demi documents.
package check

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// read decodes a manifest; a field that the type does not have is an error.
func read[T any](t *testing.T, name string) (object T) {
	text, err := os.ReadFile("../" + name)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, &object), name)
	return object
}

// neverRetry returns the exit codes that the table of docs/cli.md says not to retry.
func neverRetry(t *testing.T) (codes []int32) {
	text, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "## Exit codes")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n## ")
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|.*\| no\b[^|]*\|$`).FindAllStringSubmatch(table, -1) {
		code, err := strconv.Atoi(row[1])
		require.NoError(t, err)
		codes = append(codes, int32(code))
	}
	return codes
}

func container(t *testing.T, j *batchv1.Job) *corev1.Container {
	require.Len(t, j.Spec.Template.Spec.Containers, 1)
	return &j.Spec.Template.Spec.Containers[0]
}

// argument returns what follows a flag.
func argument(t *testing.T, c *corev1.Container, flag string) string {
	for k, a := range c.Args[:len(c.Args)-1] {
		if a == flag {
			return c.Args[k+1]
		}
	}
	require.Fail(t, "no argument "+flag)
	return ""
}

// TestPolicies: a disruption counts for nothing, and what no retry can mend is
// not retried; nothing else is said about exit codes, so that those of I/O and of
// signals are.
func TestPolicies(t *testing.T) {
	codes := neverRetry(t)
	require.Contains(t, codes, int32(3))
	require.NotContains(t, codes, int32(4))
	for name, action := range map[string]batchv1.PodFailurePolicyAction{
		"plan.yaml": batchv1.PodFailurePolicyActionFailJob, "job.yaml": batchv1.PodFailurePolicyActionFailIndex, "merge.yaml": batchv1.PodFailurePolicyActionFailJob,
	} {
		j := read[batchv1.Job](t, name)
		c := container(t, &j)
		require.Equal(t, []batchv1.PodFailurePolicyRule{
			{Action: batchv1.PodFailurePolicyActionIgnore, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget}}},
			{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: &c.Name, Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes}},
		}, j.Spec.PodFailurePolicy.Rules, name)
		require.Equal(t, corev1.RestartPolicyNever, j.Spec.Template.Spec.RestartPolicy, "of another one there is no policy for failures")
	}
}

// TestSizes: the job has a pod for each task of the plan, and all pods have the
// volume that is claimed, and a limit of memory above that of Go.
func TestSizes(t *testing.T) {
	plan, job, merge := read[batchv1.Job](t, "plan.yaml"), read[batchv1.Job](t, "job.yaml"), read[batchv1.Job](t, "merge.yaml")
	require.Equal(t, batchv1.IndexedCompletion, *job.Spec.CompletionMode)
	require.Equal(t, argument(t, container(t, &plan), "--tasks"), strconv.Itoa(int(*job.Spec.Completions)))
	require.Equal(t, *job.Spec.Completions, *job.Spec.MaxFailedIndexes, "tasks that fail do not end the others")
	require.Equal(t, argument(t, container(t, &plan), "-o"), container(t, &job).Args[1])
	require.Equal(t, argument(t, container(t, &plan), "-o"), container(t, &merge).Args[1])
	claim := read[corev1.PersistentVolumeClaim](t, "storage.yaml")
	require.Equal(t, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, claim.Spec.AccessModes)
	for _, j := range []*batchv1.Job{&plan, &job, &merge} {
		pod, c := &j.Spec.Template.Spec, container(t, j)
		require.Len(t, pod.Volumes, 1)
		require.Equal(t, claim.Name, pod.Volumes[0].PersistentVolumeClaim.ClaimName)
		require.Equal(t, pod.Volumes[0].Name, c.VolumeMounts[0].Name)
		require.True(t, strings.HasPrefix(argument(t, container(t, &plan), "-o"), c.VolumeMounts[0].MountPath+"/"))
		require.Equal(t, "GOMEMLIMIT", c.Env[0].Name)
		soft, err := strconv.Atoi(strings.TrimSuffix(c.Env[0].Value, "MiB"))
		require.NoError(t, err)
		require.Less(t, int64(soft)<<20, c.Resources.Limits.Memory().Value())
		require.Equal(t, c.Resources.Requests.Memory().Value(), c.Resources.Limits.Memory().Value())
	}
}

// TestArguments: the commands are those that docs/cli.md has, with a flag for each.
func TestArguments(t *testing.T) {
	text, err := os.ReadFile("../../../docs/cli.md")
	require.NoError(t, err)
	for name, command := range map[string]string{"plan.yaml": "plan", "job.yaml": "run", "merge.yaml": "merge"} {
		j := read[batchv1.Job](t, name)
		c := container(t, &j)
		require.Equal(t, command, c.Args[0])
		for _, a := range c.Args {
			if strings.HasPrefix(a, "-") {
				require.Contains(t, string(text), "`"+a, name)
			}
		}
	}
	require.Contains(t, string(text), "`JOB_COMPLETION_INDEX`", "the index of the pod is that of the task")
}
