/** What is in a cluster from the start: the name server, and a class of volumes that are made when they are asked for. */

import { COREDNS_IMAGE } from "../images.ts";
import type { BoxLayout } from "./box-plan.ts";
import type { KubeObject } from "./kube-api.ts";

export const PROVISIONER = "cluster.sallyport.test/folders";
/** A name by which pods reach the programs of the machine that the cluster is on. */
export const MACHINE_NAME = "machine.test";

const RBAC = "rbac.authorization.k8s.io";
const labels = { "k8s-app": "kube-dns" };
const named = (name: string, more: object = {}) => ({ name, ...more });
const inSystem = (name: string) => ({ name, namespace: "kube-system" });

/** Objects with the paths of the collections that they are created in. */
export function coreObjects(box: BoxLayout): readonly (readonly [path: string, object: KubeObject])[] {
  const core = "/api/v1/namespaces/kube-system";
  return [
    [
      "/apis/storage.k8s.io/v1/storageclasses",
      {
        apiVersion: "storage.k8s.io/v1",
        kind: "StorageClass",
        metadata: named("standard", { annotations: { "storageclass.kubernetes.io/is-default-class": "true" } }),
        provisioner: PROVISIONER,
        reclaimPolicy: "Delete",
        volumeBindingMode: "WaitForFirstConsumer",
        allowVolumeExpansion: true,
      } as KubeObject,
    ],
    [`${core}/serviceaccounts`, { apiVersion: "v1", kind: "ServiceAccount", metadata: inSystem("coredns") }],
    [
      `/apis/${RBAC}/v1/clusterroles`,
      {
        apiVersion: `${RBAC}/v1`,
        kind: "ClusterRole",
        metadata: named("system:coredns"),
        rules: [
          {
            apiGroups: [""],
            resources: ["endpoints", "services", "pods", "namespaces"],
            verbs: ["list", "watch"],
          },
          { apiGroups: ["discovery.k8s.io"], resources: ["endpointslices"], verbs: ["list", "watch"] },
        ],
      } as KubeObject,
    ],
    [
      `/apis/${RBAC}/v1/clusterrolebindings`,
      {
        apiVersion: `${RBAC}/v1`,
        kind: "ClusterRoleBinding",
        metadata: named("system:coredns"),
        roleRef: { apiGroup: RBAC, kind: "ClusterRole", name: "system:coredns" },
        subjects: [{ kind: "ServiceAccount", ...inSystem("coredns") }],
      } as KubeObject,
    ],
    [
      `${core}/configmaps`,
      {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: inSystem("coredns"),
        data: { Corefile: corefile(box.addresses.machine) },
      } as KubeObject,
    ],
    [`/apis/apps/v1/namespaces/kube-system/deployments`, NAME_SERVER],
    [
      `${core}/services`,
      {
        apiVersion: "v1",
        kind: "Service",
        metadata: inSystem("kube-dns"),
        spec: {
          clusterIP: box.addresses.nameServer,
          selector: labels,
          ports: [
            { name: "dns", port: 53, protocol: "UDP" },
            { name: "dns-tcp", port: 53, protocol: "TCP" },
          ],
        },
      } as KubeObject,
    ],
  ];
}

/** Answers are kept for a moment only: tests make and remove Services faster than people do. */
const corefile = (machine: string) => `.:53 {
  errors
  health
  ready
  hosts {
    ${machine} ${MACHINE_NAME}
    fallthrough
  }
  kubernetes cluster.local in-addr.arpa {
    pods insecure
    ttl 1
  }
  cache 1
}
`;

const NAME_SERVER = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: inSystem("coredns"),
  spec: {
    selector: { matchLabels: labels },
    template: {
      metadata: { labels },
      spec: {
        serviceAccountName: "coredns",
        priorityClassName: "system-cluster-critical",
        dnsPolicy: "Default",
        terminationGracePeriodSeconds: 3,
        containers: [
          {
            name: "coredns",
            image: COREDNS_IMAGE,
            imagePullPolicy: "Never",
            args: ["-conf", "/etc/coredns/Corefile"],
            readinessProbe: { httpGet: { path: "/ready", port: 8181 }, periodSeconds: 1 },
            livenessProbe: { httpGet: { path: "/health", port: 8080 } },
            volumeMounts: [{ name: "configuration", mountPath: "/etc/coredns" }],
          },
        ],
        volumes: [{ name: "configuration", configMap: { name: "coredns" } }],
      },
    },
  },
} as KubeObject;
