// Package controller runs the manifests through Kubernetes itself: the defaults and the validation of the API server, and the
// controller of Jobs, with an API in memory. The pods that it creates are run as processes of this machine.
package controller

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	genericrequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/controller/job"
	strategy "k8s.io/kubernetes/pkg/registry/batch/job"
)

// accepted returns the Job of a manifest as the API server stores it.
func accepted(t *testing.T, name string) *batchv1.Job {
	text, err := os.ReadFile("../" + name)
	require.NoError(t, err)
	scheme := legacyscheme.Scheme
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := decoder.Decode(text, nil, nil)
	require.NoError(t, err)
	scheme.Default(object)
	stored := new(batch.Job)
	require.NoError(t, scheme.Convert(object, stored, nil))
	stored.Namespace, stored.UID = "default", types.UID("uid-of-"+name)
	ctx := genericrequest.WithNamespace(context.Background(), "default")
	strategy.Strategy.PrepareForCreate(ctx, stored)
	require.Empty(t, strategy.Strategy.Validate(ctx, stored), name)
	require.Empty(t, strategy.Strategy.WarningsOnCreate(ctx, stored), name)
	j := new(batchv1.Job)
	require.NoError(t, scheme.Convert(stored, j, nil))
	return j
}

// A cluster has the controller of Jobs, and one node.
type cluster struct {
	client  kubernetes.Interface
	weights string // where the volume is on this machine
	demi    string

	mutex    sync.Mutex
	attempts map[string][]int // the exit codes of the pods of each index
}

func newCluster(t *testing.T, weights, demi string) *cluster {
	client := fake.NewClientset()
	made := 0
	client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
		made++ // under the lock of the client
		pod := a.(k8stesting.CreateAction).GetObject().(*corev1.Pod)
		pod.Name = fmt.Sprintf("%s%d", pod.GenerateName, made)
		pod.UID = types.UID("uid-of-" + pod.Name)
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := job.NewController(ctx, client, factory.Core().V1().Pods(), factory.Batch().V1().Jobs(), nil, nil)
	require.NoError(t, err)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var wait sync.WaitGroup
	wait.Go(func() { c.Run(ctx, 2) })
	t.Cleanup(func() {
		cancel()
		wait.Wait()
		factory.Shutdown()
	})
	return &cluster{client: client, weights: weights, demi: demi, attempts: map[string][]int{}}
}

// run runs the pods of a Job, one after the other, until the Job has ended.
func (c *cluster) run(t *testing.T, j *batchv1.Job) *batchv1.Job {
	ctx := context.Background()
	_, err := c.client.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{})
	require.NoError(t, err)
	for range 1200 {
		pods, err := c.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		require.NoError(t, err)
		for k := range pods.Items {
			if pod := &pods.Items[k]; pod.Status.Phase == "" && metav1.IsControlledBy(pod, j) {
				c.start(t, pod)
			}
		}
		now, err := c.client.BatchV1().Jobs("default").Get(ctx, j.Name, metav1.GetOptions{})
		require.NoError(t, err)
		for _, condition := range now.Status.Conditions {
			if condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed {
				return now
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	require.Fail(t, "the job does not end")
	return nil
}

// start does what a node does: runs the container, and says how it ended.
func (c *cluster) start(t *testing.T, pod *corev1.Pod) {
	container := &pod.Spec.Containers[0]
	mount := container.VolumeMounts[0].MountPath
	var args []string
	for _, a := range container.Args {
		args = append(args, strings.Replace(a, mount, c.weights, 1))
	}
	cmd := exec.Command(c.demi, args...)
	for _, e := range container.Env {
		value := e.Value
		if e.ValueFrom != nil {
			require.Equal(t, "metadata.labels['"+batchv1.JobCompletionIndexAnnotation+"']", e.ValueFrom.FieldRef.FieldPath)
			value = pod.Labels[batchv1.JobCompletionIndexAnnotation]
		}
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	out, _ := cmd.CombinedOutput()
	code := cmd.ProcessState.ExitCode()
	t.Logf("%s: exit %d\n%s", pod.Name, code, out[:min(len(out), 300)])
	index := pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	c.mutex.Lock()
	c.attempts[index] = append(c.attempts[index], code)
	c.mutex.Unlock()
	now, err := c.client.CoreV1().Pods("default").Get(context.Background(), pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	now.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		now.Status.Phase = corev1.PodFailed
	}
	ended := &corev1.ContainerStateTerminated{ExitCode: int32(code), FinishedAt: metav1.Now()}
	now.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: container.Name, State: corev1.ContainerState{Terminated: ended}}}
	_, err = c.client.CoreV1().Pods("default").UpdateStatus(context.Background(), now, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// build returns a demi whose first attempt at task 0 fails with exit 4.
func build(t *testing.T) (demi, real string) {
	dir := t.TempDir()
	real = filepath.Join(dir, "real")
	build := exec.Command("go", "build", "-C", "../../..", "-buildvcs=false", "-o", real, "./cmd/convert")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	demi = filepath.Join(dir, "demi")
	script := "#!/bin/sh\nif [ \"$1 $JOB_COMPLETION_INDEX\" = 'run 0' ] && /bin/mkdir " + dir + "/first 2>/dev/null; then exit 4; fi\nexec " + real + " \"$@\"\n"
	require.NoError(t, os.WriteFile(demi, []byte(script), 0o777))
	return demi, real
}

// TestJobs: the controller runs each task of the plan, tries what may pass again,
// and not what is for good; the output is that of one process.
func TestJobs(t *testing.T) {
	demi, real := build(t)
	weights := t.TempDir()
	for _, name := range []string{"model", "changed"} {
		require.NoError(t, os.CopyFS(filepath.Join(weights, name), os.DirFS("../../../testdata/charlm/sharded")))
	}
	list := fmt.Sprintf("%[1]s/model\t%[1]s/out\n%[1]s/changed\t%[1]s/none\n", weights)
	require.NoError(t, os.WriteFile(filepath.Join(weights, "jobs.tsv"), []byte(list), 0o666))
	c := newCluster(t, weights, demi)

	plan := c.run(t, accepted(t, "plan.yaml"))
	require.EqualValues(t, 1, plan.Status.Succeeded)
	require.NoError(t, os.Chtimes(filepath.Join(weights, "changed", "model-00001-of-00003.safetensors"), time.Unix(1, 0), time.Unix(1, 0)))
	clear(c.attempts)

	run := c.run(t, accepted(t, "job.yaml"))
	require.Len(t, c.attempts, 8, "a pod for each index")
	failed := []string{}
	for index, codes := range c.attempts {
		if index == "0" {
			require.Equal(t, 4, codes[0])
			codes = codes[1:]
		}
		require.Len(t, codes, 1, "index %s", index)
		if codes[0] != 0 {
			require.Equal(t, 3, codes[0])
			failed = append(failed, index)
		}
	}
	slices.Sort(failed)
	require.Len(t, failed, 1)
	require.Equal(t, failed[0], *run.Status.FailedIndexes)
	require.EqualValues(t, 7, run.Status.Succeeded)

	merge := c.run(t, accepted(t, "merge.yaml"))
	require.EqualValues(t, 1, merge.Status.Failed, "exit 3 is not tried again")
	require.NoError(t, exec.Command(real, filepath.Join(weights, "model"), filepath.Join(weights, "want"), "--dtype", "bf16", "-q").Run())
	out, err := exec.Command("diff", "-r", filepath.Join(weights, "want"), filepath.Join(weights, "out")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoDirExists(t, filepath.Join(weights, "none"))
}
