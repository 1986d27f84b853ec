/** Starts a cluster, says where, and never closes it: what a test is that crashes. */
import { Cluster } from "./cluster.ts";

const cluster = await Cluster.start({ nodes: Number(process.argv[2] ?? 1) });
await cluster.apply(`
apiVersion: v1
kind: Pod
metadata: { name: forgotten }
spec:
  containers: [{ name: main, image: "registry.test/pod:1", imagePullPolicy: Never, args: [pause] }]
`);
await cluster.kubectl(["wait", "--for=condition=Ready", "pod/forgotten", "--timeout=120s"]);
console.log(`running ${cluster.kubeconfig}`);
