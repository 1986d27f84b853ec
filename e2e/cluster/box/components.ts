/** The processes of a cluster as command lines, in the order in which they can be started. */
import type { BoxLayout, Component } from "./box-plan.ts";

const ETCD = "http://127.0.0.1:2379";

export function etcd(box: BoxLayout): Component {
  return {
    name: "etcd",
    command: `${box.plan.tools.etcd}/server`,
    args: [
      `--data-dir=${box.file("etcd")}`,
      `--listen-client-urls=${ETCD}`,
      `--advertise-client-urls=${ETCD}`,
      "--listen-peer-urls=http://127.0.0.1:2380",
      // It need not survive the machine.
      "--unsafe-no-fsync",
      "--log-level=warn",
    ],
  };
}

export function apiServer(box: BoxLayout): Component {
  const of = (name: string): string => box.certificate(name);
  return {
    name: "kube-apiserver",
    command: box.kubernetes("kube-apiserver"),
    args: [
      `--etcd-servers=${ETCD}`,
      "--secure-port=6443",
      "--bind-address=0.0.0.0",
      `--advertise-address=${box.addresses.controlPlane}`,
      `--tls-cert-file=${of("apiserver.crt")}`,
      `--tls-private-key-file=${of("apiserver.key")}`,
      `--client-ca-file=${of("ca.crt")}`,
      `--requestheader-client-ca-file=${of("ca.crt")}`,
      "--requestheader-allowed-names=front-proxy",
      "--requestheader-username-headers=X-Remote-User",
      "--requestheader-group-headers=X-Remote-Group",
      "--requestheader-extra-headers-prefix=X-Remote-Extra-",
      `--proxy-client-cert-file=${of("front-proxy.crt")}`,
      `--proxy-client-key-file=${of("front-proxy.key")}`,
      `--service-account-key-file=${of("sa.pub")}`,
      `--service-account-signing-key-file=${of("sa.key")}`,
      "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
      `--service-cluster-ip-range=${box.addresses.services}`,
      "--authorization-mode=Node,RBAC",
      "--enable-admission-plugins=NodeRestriction",
      `--kubelet-client-certificate=${of("apiserver-kubelet.crt")}`,
      `--kubelet-client-key=${of("apiserver-kubelet.key")}`,
      `--kubelet-certificate-authority=${of("ca.crt")}`,
      "--kubelet-preferred-address-types=InternalIP",
      "--allow-privileged=true",
    ],
  };
}

export function controllerManager(box: BoxLayout): Component {
  const kubeconfig = box.certificate("controller-manager.kubeconfig");
  return {
    name: "kube-controller-manager",
    command: box.kubernetes("kube-controller-manager"),
    args: [
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      `--service-account-private-key-file=${box.certificate("sa.key")}`,
      `--root-ca-file=${box.certificate("ca.crt")}`,
      `--cluster-signing-cert-file=${box.certificate("ca.crt")}`,
      `--cluster-signing-key-file=${box.certificate("ca.key")}`,
      "--use-service-account-credentials=true",
      // At its default of 20 requests a second it does nothing for five seconds.
      "--kube-api-qps=300",
      "--kube-api-burst=600",
      "--leader-elect=false",
      "--bind-address=127.0.0.1",
      // A node that is gone is noticed after 12 s instead of 40.
      "--node-monitor-period=1s",
      "--node-monitor-grace-period=12s",
    ],
  };
}

export function scheduler(box: BoxLayout): Component {
  const kubeconfig = box.certificate("scheduler.kubeconfig");
  return {
    name: "kube-scheduler",
    command: box.kubernetes("kube-scheduler"),
    args: [
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      "--leader-elect=false",
      "--bind-address=127.0.0.1",
    ],
  };
}

export function containerd(box: BoxLayout, node: number): Component {
  return {
    name: `containerd${node}`,
    command: box.containerd("usr/bin/containerd"),
    args: ["--config", box.node(node, "containerd.toml")],
  };
}

export function kubelet(box: BoxLayout, node: number): Component {
  return {
    name: `kubelet${node}`,
    command: box.kubernetes("kubelet"),
    args: [
      `--config=${box.node(node, "kubelet.yaml")}`,
      `--kubeconfig=${box.certificate(`kubelet${node}.kubeconfig`)}`,
      `--root-dir=${box.node(node, "kubelet")}`,
      `--cert-dir=${box.node(node, "kubelet", "pki")}`,
      `--hostname-override=node${node}`,
      `--node-ip=${box.addresses.node(node)}`,
    ],
  };
}

/** One for all nodes, as they share a network namespace. */
export function kubeProxy(box: BoxLayout): Component {
  return {
    name: "kube-proxy",
    command: box.kubernetes("kube-proxy"),
    args: [`--config=${box.file("kube-proxy.yaml")}`],
  };
}
