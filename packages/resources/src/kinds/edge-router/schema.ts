import { type ConfigNode, type RouterConfigFile, sectionShape, type ValueShape } from "@sallyport/router-config";
import type { z } from "zod";
import { choice, duration, flag, freeForm, integer, list, mapOf, struct, text, time } from "../../fields/bounded.ts";
import type { CelRule } from "../../fields/cel.ts";
import { entityFields, entityRules, nameRule, roleAttributes } from "../../fields/entity.ts";
import { exposure, hostnamePattern } from "../../fields/exposure.ts";
import { entityId, nameRef } from "../../fields/references.ts";
import { enabled, imageFields, podTemplate, storage } from "../../fields/workload.ts";
import { edgeRouterKind } from "../../group.ts";
import { defineKind, type Resource, serviceName, shortName, statusFields } from "../../kind-definition.ts";

type Section = "forwarder" | "metrics" | "healthChecks" | "csr";

/** What sections in sections are for; their keys say it themselves in the router's schema. */
const NESTED: Readonly<Record<string, string>> = {
  "healthChecks.ctrlPingCheck": "Whether a controller is connected and answers.",
  "healthChecks.linkCheck": "Whether there are enough links to other routers.",
  "csr.sans": "Names besides those that the operator finds itself.",
};

/** A section of the router's file as part of a spec: its keys, bounds and meanings are those of the router's schema. */
function routerSection<Name extends Section>(
  name: Name,
  description: string,
): z.ZodType<NonNullable<RouterConfigFile[Name]>, NonNullable<RouterConfigFile[Name]>> {
  const schema: unknown = structOf(sectionShape(name), name, description);
  return schema as z.ZodType<NonNullable<RouterConfigFile[Name]>, NonNullable<RouterConfigFile[Name]>>;
}

function structOf(node: ConfigNode & { kind: "section" }, key: string, description: string): z.ZodType {
  const fields = Object.entries(node.keys).map(
    ([name, child]) => [name, fieldOf(child, `${key}.${name}`).optional()] as const,
  );
  return struct(description, Object.fromEntries(fields));
}

function fieldOf(node: ConfigNode, key: string): z.ZodType {
  switch (node.kind) {
    case "section":
      return structOf(node, key, NESTED[key] ?? "");
    case "list":
      return list(node.meaning, scalarNode(node.element, "One of them."), { type: "set", max: 64 });
    case "value":
      return scalarNode(node.value, node.meaning);
  }
}

function scalarNode(shape: ValueShape, meaning: string): z.ZodType {
  switch (shape.kind) {
    case "text":
      return text(meaning, { max: 1024 });
    case "texts":
      return list(meaning, text("One of them.", { max: 1024 }), { type: "set", max: 64 });
    case "boolean":
      return flag(meaning);
    case "integer":
      return integer(meaning, { min: shape.min, max: shape.max });
    case "duration":
      return duration(meaning, { min: shape.min, max: shape.max });
  }
}

const TUNNELER_RULES: readonly CelRule[] = [
  {
    rule: "!has(self.resolver) || self.mode == 'tproxy'",
    message: "resolver belongs to mode tproxy",
    fieldPath: ".resolver",
  },
  {
    rule: "!has(self.dnsSvcIpRange) || self.mode == 'tproxy'",
    message: "dnsSvcIpRange belongs to mode tproxy",
    fieldPath: ".dnsSvcIpRange",
  },
  {
    rule: "!has(self.proxyServices) || self.mode == 'proxy'",
    message: "proxyServices belongs to mode proxy",
    fieldPath: ".proxyServices",
  },
];

const tunneler = struct(
  "The tunneler in the router, which hosts and dials services for unmodified programs.",
  {
    enabled: flag("Whether the tunneler runs. The router then has an identity of the same name.").default(false),
    mode: choice(
      "host: hosts services. proxy: listens on ports and dials services. tproxy: intercepts; needs the capability NET_ADMIN, which the Pod Security Standards baseline and restricted refuse.",
      ["host", "tproxy", "proxy"],
    ).default("host"),
    resolver: text("Address of the DNS server of tproxy, such as udp://127.0.0.1:53.", {
      min: 1,
      max: 256,
    }).optional(),
    dnsSvcIpRange: text("Network for the addresses of intercepted names, such as 100.64.0.1/10.", {
      min: 1,
      max: 64,
    }).optional(),
    proxyServices: list(
      "Services and the ports of proxy, as <service>:<port> or <service>:<port>:udp.",
      text("One service and port.", { min: 3, max: 512, pattern: /^.+:[0-9]{1,5}(:(tcp|udp))?$/ }),
      { type: "set", max: 64 },
    ).optional(),
  },
  TUNNELER_RULES,
);

const spec = struct(
  "Edge routers of a network and the pods that run them.",
  {
    ...entityFields,
    replicas: integer("Number of routers. Each is a separate entity, named <name>-<ordinal>.", { max: 50 }).default(1),
    roleAttributes: roleAttributes("the routers").optional(),
    cost: integer("Added to the cost of every path through the routers.", { max: 65_535 }).default(0),
    noTraversal: flag("Whether only circuits that begin or end here may use the routers.").default(false),
    disabled: flag("Whether the controller refuses the routers.").default(false),
    configRefs: list(
      "Configs of the routers, by resource. One of each type, whose target is router, such as router.link.v1.",
      nameRef("One config.", "the ServiceConfig"),
      { type: "map", keys: ["name"], max: 32 },
    ).optional(),
    configIds: list("Configs of the routers, by id in the network.", entityId("One id."), {
      type: "set",
      max: 32,
    }).optional(),
    appData: freeForm("Application data of the routers: text, numbers and booleans.", { max: 64 }).optional(),
    tunneler: tunneler.prefault({}),
    edge: struct("The listener for clients.", {
      port: integer("Port of the pods, for clients and other routers.", { min: 1024, max: 65_535 }).default(3022),
    }).prefault({}),
    link: struct("Links to other routers.", {
      listen: flag("Whether other routers may dial these routers.").default(true),
      dial: flag("Whether these routers dial other routers.").default(true),
      groups: list(
        "Groups of the listener and the dialer. Routers link if they share a group. Default: default.",
        text("One group.", { min: 1, max: 128 }),
        { type: "set", max: 32 },
      ).optional(),
    }).prefault({}),
    exposure: exposure("Address of each router.", {
      types: ["ClusterIP", "LoadBalancer", "NodePort", "HostPort", "None"],
      typeDescription:
        "ClusterIP: inside the cluster. LoadBalancer, NodePort: with a Service of that type per router. HostPort: at the address of the node. None: no address, the router only dials.",
      hostname:
        "Advertised name instead of the one from Kubernetes. The operator fills in {name}, {namespace} and {ordinal}.",
      hostnamePattern: hostnamePattern("name", "namespace", "ordinal"),
      port: "Advertised port. Default: edge.port.",
      nodePort: "Node port of router 0; each further router has the next port. Default: assigned by the cluster.",
    }).prefault({ type: "ClusterIP" }),
    forwarder: routerSection("forwarder", "Section forwarder of the router's file.").optional(),
    metrics: routerSection("metrics", "Section metrics of the router's file.").optional(),
    healthChecks: routerSection("healthChecks", "Section healthChecks of the router's file.").optional(),
    csr: routerSection(
      "csr",
      "Section csr of the router's file: subject and further names of the certificates.",
    ).optional(),
    config: struct("The router's configuration file.", {
      overrides: freeForm(
        "Applied to the rendered file last: objects merge, lists are replaced, null deletes. The fields v, identity, ctrl.endpoint, ctrl.endpoints and the health checks of web are refused, and so is $ in texts.",
        { max: 32 },
      ).optional(),
    }).optional(),
    ...imageFields,
    storage: storage.prefault({}),
    template: podTemplate.optional(),
    podDisruptionBudget: struct("Prevents node drains from stopping several routers at once.", {
      enabled: enabled("Whether to create it, with two or more replicas.", true),
    }).prefault({}),
    networkPolicy: struct("Admits only traffic to the ports of the router, and limits outgoing traffic of the pods.", {
      enabled: enabled("Whether to create it.", false),
    }).prefault({}),
    serviceMonitor: struct("A ServiceMonitor with which the Prometheus operator scrapes the routers.", {
      enabled: enabled("Whether to create it.", false),
      interval: duration("Scrape interval.", { min: "1s" }).optional(),
      labels: mapOf("Labels by which Prometheus finds the ServiceMonitor.", text("Value of the label.", { max: 63 }), {
        max: 32,
      }).optional(),
    }).prefault({}),
    updateStrategy: struct("How a change is rolled out.", {
      maxUnavailable: integer("Number of routers that may be unavailable at a time.", { min: 1, max: 50 }).default(1),
      minReadySeconds: integer(
        "How long a router has to be ready before the next one is updated. Clients and hosts reconnect in this time.",
        { max: 3600 },
      ).default(10),
    }).prefault({}),
    drainSeconds: integer("How long a stopping router waits for its circuits to end.", { max: 3600 }).default(30),
  },
  [
    ...entityRules,
    {
      rule: "!has(self.importId) || self.replicas <= 1",
      message: "importId names one router: it needs replicas 0 or 1",
      fieldPath: ".importId",
    },
    {
      rule: "self.replicas <= 1 || !has(self.exposure.hostname) || self.exposure.type in ['NodePort', 'None'] || self.exposure.hostname.contains('{ordinal}')",
      message: "with several replicas exposure.hostname needs {ordinal}: each router needs a different address",
      fieldPath: ".exposure.hostname",
    },
    {
      rule: "!has(self.exposure.nodePort) || self.exposure.nodePort + self.replicas <= 65536",
      message: "exposure.nodePort leaves no room for the ports of all replicas",
      fieldPath: ".exposure.nodePort",
    },
  ],
);

const router = struct("One router.", {
  ordinal: integer("Ordinal, from 0.", { max: 49 }),
  name: text("Name in the network.", { max: 300 }).optional(),
  id: text("Id in the network.", { max: 64 }).optional(),
  verified: flag("Whether it has enrolled.").optional(),
  online: flag("Whether it is connected to a controller.").optional(),
  everOnline: flag(
    "Whether it was online since it enrolled. If so, the operator enrolls it again only on request.",
  ).optional(),
  syncStatus: text("State of its data model, such as SYNC_DONE.", { max: 64 }).optional(),
  version: text("Version that it reports.", { max: 256 }).optional(),
  advertiseAddress: text("Address for clients, as <host>:<port>.", { max: 512 }).optional(),
  certificateNotAfter: time("Expiry of its certificate.").optional(),
  configHash: text("Hash of the file that it was last started with.", { max: 64 }).optional(),
  volume: text("UID of the claim for the volume with its identity. Another UID means that the identity is lost.", {
    max: 64,
  }).optional(),
  tokenExpiresAt: time("Expiry of the unused token.").optional(),
});

const status = struct("What the operator found and did.", {
  ...statusFields,
  replicas: integer("Number of routers.").optional(),
  readyReplicas: integer("Number of routers with a ready pod.").optional(),
  onlineReplicas: integer("Number of routers connected to a controller.").optional(),
  selector: text("Labels of the pods, for the scale subresource.", { max: 1024 }).optional(),
  routers: list("The single routers.", router, { type: "map", keys: ["ordinal"], max: 100 }).optional(),
  lastHandledReEnroll: text("The last value of the annotation sallyport.dev/re-enroll acted on.", {
    max: 256,
  }).optional(),
  lastHandledRestart: text("The last value of the annotation sallyport.dev/restart-requested-at acted on.", {
    max: 256,
  }).optional(),
});

export const edgeRouterDefinition = defineKind({
  ...edgeRouterKind,
  shortNames: ["oer"],
  description:
    "Edge routers of a network: entities, enrollment, configuration, pods, volumes and Services, rolled out one at a time.",
  spec,
  status,
  rules: [nameRule, shortName(40), serviceName],
  columns: [
    { name: "Desired", type: "integer", description: "Desired number of routers.", jsonPath: ".spec.replicas" },
    {
      name: "Online",
      type: "integer",
      description: "Routers connected to a controller.",
      jsonPath: ".status.onlineReplicas",
    },
    {
      name: "Address",
      type: "string",
      description: "Address of the first router for clients.",
      jsonPath: ".status.routers[0].advertiseAddress",
    },
    {
      name: "Version",
      type: "string",
      description: "Version that the first router reports.",
      jsonPath: ".status.routers[0].version",
      priority: 1,
    },
  ],
  scale: {
    specReplicasPath: ".spec.replicas",
    statusReplicasPath: ".status.replicas",
    labelSelectorPath: ".status.selector",
  },
});

export type EdgeRouterSpec = z.output<typeof spec>;
type EdgeRouterStatus = z.output<typeof status>;
/** `status.routers[]`. */
export type RouterStatus = z.output<typeof router>;
export type EdgeRouterResource = Resource<EdgeRouterSpec, EdgeRouterStatus>;
