/** The configuration files of a node and of the proxy, as text. JSON is YAML, too. */

import { PAUSE_IMAGE } from "../images.ts";
import type { BoxLayout } from "./box-plan.ts";

export function containerdConfig(box: BoxLayout, node: number): string {
  const text = JSON.stringify;
  return `version = 2
root = ${text(box.node(node, "containerd"))}
state = ${text(box.node(node, "containerd-state"))}
disabled_plugins = [${["aufs", "btrfs", "zfs", "devmapper"].map((name) => text(`io.containerd.snapshotter.v1.${name}`)).join(", ")}]
[grpc]
  address = ${text(box.runtimeSocket(node))}
[plugins."io.containerd.internal.v1.opt"]
  path = ${text(box.node(node, "opt"))}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = ${text(PAUSE_IMAGE)}
  # Without the right to raise them, what cannot be had is left out instead of failing.
  restrict_oom_score_adj = true
  disable_apparmor = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = ${text(box.containerd("usr/sbin/runc"))}
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = ${text(box.containerd("usr/lib/cni"))}
    conf_dir = ${text(box.node(node, "cni"))}
`;
}

/** Each node has a bridge; nothing is translated, as the machine has a route to every pod. */
export function podNetwork(box: BoxLayout, node: number): string {
  return JSON.stringify({
    cniVersion: "1.0.0",
    name: `pods${node}`,
    plugins: [
      {
        type: "bridge",
        bridge: `pods${node}`,
        isGateway: true,
        ipMasq: false,
        hairpinMode: true,
        ipam: {
          type: "host-local",
          dataDir: box.node(node, "cni-addresses"),
          ranges: [[{ subnet: box.addresses.podsOf(node) }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
    ],
  });
}

export function kubeletConfig(box: BoxLayout, node: number): string {
  const address = box.addresses.node(node);
  return JSON.stringify({
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address,
    healthzBindAddress: address,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: box.certificate("ca.crt") },
    },
    authorization: { mode: "Webhook" },
    tlsCertFile: box.certificate(`kubelet${node}.crt`),
    tlsPrivateKeyFile: box.certificate(`kubelet${node}.key`),
    containerRuntimeEndpoint: `unix://${box.runtimeSocket(node)}`,
    cgroupDriver: "cgroupfs",
    cgroupRoot: `/${box.plan.group}/node${node}`,
    enforceNodeAllocatable: [],
    failCgroupV1: false,
    failSwapOn: false,
    // What the kernel does not let it do (limits, scores) is then a line in the log instead of its end.
    featureGates: { KubeletInUserNamespace: true },
    clusterDomain: "cluster.local",
    clusterDNS: [box.addresses.nameServer],
    resolvConf: box.file("resolv.conf"),
    // The disk and the memory of a machine under test are no reason for an eviction.
    evictionHard: {
      "memory.available": "100Mi",
      "nodefs.available": "0%",
      "nodefs.inodesFree": "0%",
      "imagefs.available": "0%",
    },
    imageGCHighThresholdPercent: 100,
    podLogsDir: box.node(node, "pod-logs"),
    volumePluginDir: box.node(node, "volume-plugins"),
    nodeStatusUpdateFrequency: "2s",
    nodeLeaseDurationSeconds: 10,
  });
}

export function kubeProxyConfig(box: BoxLayout): string {
  return JSON.stringify({
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    clientConnection: { kubeconfig: box.certificate("proxy.kubeconfig") },
    clusterCIDR: box.addresses.pods,
    hostnameOverride: "node1",
    nodePortAddresses: ["0.0.0.0/0"],
    // A Service is reachable a tenth of a second after its pods are ready, not a second.
    nftables: { minSyncPeriod: "100ms" },
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
    oomScoreAdj: 0,
  });
}
