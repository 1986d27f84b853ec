import { type ConfigNode, type RouterConfigFile, sectionShape, type ValueShape } from "@sallyport/router-config";
import type { z } from "zod";
import { statusFields } from "../../resources/condition.ts";
import {
  choice,
  duration,
  flag,
  freeForm,
  integer,
  list,
  mapOf,
  struct,
  text,
  time,
} from "../../resources/fields/bounded.ts";
import type { CelRule } from "../../resources/fields/cel.ts";
import { entityFields, entityRules, nameRule, roleAttributes } from "../../resources/fields/entity.ts";
import { exposure, hostnamePattern } from "../../resources/fields/exposure.ts";
import { enabled, imageFields, podTemplate, storage } from "../../resources/fields/workload.ts";
import { defineKind, type Resource, serviceName, shortName } from "../../resources/kind-definition.ts";
import { edgeRouterKind } from "../../resources/own-kinds.ts";

type Section = "forwarder" | "metrics" | "healthChecks" | "csr";

/** What sections in sections are for; their keys say it themselves in the router's schema. */
const NESTED: Readonly<Record<string, string>> = {
  "healthChecks.ctrlPingCheck": "Whether a controller is connected and answers.",
  "healthChecks.linkCheck": "Whether there are enough links to other routers.",
  "csr.sans": "Names besides those that the operator finds itself.",
};

/** A section of the router's file as part of a spec: its keys, bounds and meanings are those of the router's schema. */
export function routerSection<Name extends Section>(
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
      return integer(meaning, {
        ...(shape.min === undefined ? {} : { min: shape.min }),
        ...(shape.max === undefined ? {} : { max: shape.max }),
      });
    case "duration":
      return duration(meaning, {
        ...(shape.min === undefined ? {} : { min: shape.min }),
        ...(shape.max === undefined ? {} : { max: shape.max }),
      });
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
  "The tunneler in the router: with it the router hosts and dials services for programs that know nothing of the network.",
  {
    enabled: flag("Whether it runs; the router then has an identity of the same name.").default(false),
    mode: choice(
      "host: hosts services. proxy: listens on ports and dials services. tproxy: intercepts; needs the capability NET_ADMIN, which the Pod Security Standards baseline and restricted refuse.",
      ["host", "tproxy", "proxy"],
    ).default("host"),
    resolver: text("Where the DNS server of tproxy listens, such as udp://127.0.0.1:53.", {
      min: 1,
      max: 256,
    }).optional(),
    dnsSvcIpRange: text("Network of which intercepted names get their addresses, such as 100.64.0.1/10.", {
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
    replicas: integer("How many routers; each is an entity of its own, named <name>-<ordinal>.", { max: 50 }).default(
      1,
    ),
    roleAttributes: roleAttributes("the routers").optional(),
    cost: integer("Added to the cost of every path through the routers.", { max: 65_535 }).default(0),
    noTraversal: flag("Whether circuits of others are kept from passing through.").default(false),
    disabled: flag("Whether the controller turns the routers away.").default(false),
    appData: freeForm("What applications keep with the routers: text, numbers and booleans.", { max: 64 }).optional(),
    tunneler: tunneler.prefault({}),
    edge: struct("Where clients connect.", {
      port: integer("Port of the pods, for clients and other routers.", { min: 1024, max: 65_535 }).default(3022),
    }).prefault({}),
    link: struct("Links to other routers.", {
      listen: flag("Whether other routers may dial these.").default(true),
      dial: flag("Whether these dial other routers.").default(true),
      groups: list(
        "Groups of the listener and the dialer: routers link when they share one; default when left out.",
        text("One group.", { min: 1, max: 128 }),
        { type: "set", max: 32 },
      ).optional(),
    }).prefault({}),
    exposure: exposure("Under which address each router is reached.", {
      types: ["ClusterIP", "LoadBalancer", "NodePort", "HostPort", "None"],
      typeDescription:
        "ClusterIP: inside the cluster. LoadBalancer, NodePort: by a Service of that type per router. HostPort: by the address of the node. None: not at all, the router only dials.",
      hostname:
        "Name that is advertised instead of what Kubernetes gives; {name}, {namespace} and {ordinal} are filled in.",
      hostnamePattern: hostnamePattern("name", "namespace", "ordinal"),
      port: "Port that is advertised; edge.port when left out.",
      nodePort: "Node port of router 0, each next router has the next port; given by the cluster when left out.",
    }).prefault({ type: "ClusterIP" }),
    forwarder: routerSection("forwarder", "Section forwarder of the router's file.").optional(),
    metrics: routerSection("metrics", "Section metrics of the router's file.").optional(),
    healthChecks: routerSection("healthChecks", "Section healthChecks of the router's file.").optional(),
    csr: routerSection(
      "csr",
      "Section csr of the router's file: subject and further names of the certificates.",
    ).optional(),
    config: struct("The router's file.", {
      overrides: freeForm(
        "Laid over the rendered file at the end: objects merge, lists are replaced, null deletes. v, identity, ctrl.endpoint, ctrl.endpoints and the health checks of web are refused, and so is $ in texts.",
        { max: 32 },
      ).optional(),
    }).optional(),
    ...imageFields,
    storage: storage.prefault({}),
    template: podTemplate.optional(),
    podDisruptionBudget: struct("Keeps drains of nodes from stopping several routers at once.", {
      enabled: enabled("Whether there is one, from two replicas on.", true),
    }).prefault({}),
    networkPolicy: struct(
      "Keeps everything but the ports of the router out, and the pods from reaching what they need not.",
      {
        enabled: enabled("Whether there is one.", false),
      },
    ).prefault({}),
    serviceMonitor: struct("Tells the Prometheus operator to scrape the routers.", {
      enabled: enabled("Whether there is one.", false),
      interval: duration("How often they are scraped.", { min: "1s" }).optional(),
      labels: mapOf("Labels by which Prometheus finds it.", text("Value of the label.", { max: 63 }), {
        max: 32,
      }).optional(),
    }).prefault({}),
    updateStrategy: struct("How a change is rolled out.", {
      maxUnavailable: integer("How many routers may be away at a time.", { min: 1, max: 50 }).default(1),
      minReadySeconds: integer(
        "How long a router has to be ready again before the next one is touched: clients and hosts come back to it meanwhile.",
        { max: 3600 },
      ).default(10),
    }).prefault({}),
    drainSeconds: integer("How long a router that is to stop waits for its circuits to end.", { max: 3600 }).default(
      30,
    ),
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
      message: "with several replicas exposure.hostname needs {ordinal}: each router has an address of its own",
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
  ordinal: integer("Which one, counted from 0.", { max: 49 }),
  name: text("Name in the network.", { max: 300 }).optional(),
  id: text("Id in the network.", { max: 64 }).optional(),
  verified: flag("Whether it has enrolled.").optional(),
  online: flag("Whether it is connected to a controller.").optional(),
  everOnline: flag(
    "Whether it has been since it enrolled; if so it is never enrolled again without being asked.",
  ).optional(),
  syncStatus: text("How far its data model is, such as SYNC_DONE.", { max: 64 }).optional(),
  version: text("Version that it reports.", { max: 256 }).optional(),
  advertiseAddress: text("What clients dial, as <host>:<port>.", { max: 512 }).optional(),
  certificateNotAfter: time("When its certificate ends.").optional(),
  configHash: text("Hash of the file that it was last started with.", { max: 64 }).optional(),
  volume: text(
    "UID of the claim for the volume that its identity is on; another one means that the identity is lost.",
    {
      max: 64,
    },
  ).optional(),
  tokenExpiresAt: time("When the token ends that waits to be used.").optional(),
});

const status = struct("What the operator found and did.", {
  ...statusFields,
  replicas: integer("How many routers there are.").optional(),
  readyReplicas: integer("How many have a pod that is ready.").optional(),
  onlineReplicas: integer("How many are connected to a controller.").optional(),
  selector: text("Labels of the pods, for the scale subresource.", { max: 1024 }).optional(),
  routers: list("The routers, one by one.", router, { type: "map", keys: ["ordinal"], max: 100 }).optional(),
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
    { name: "Desired", type: "integer", description: "Routers wanted.", jsonPath: ".spec.replicas" },
    {
      name: "Online",
      type: "integer",
      description: "Routers connected to a controller.",
      jsonPath: ".status.onlineReplicas",
    },
    {
      name: "Address",
      type: "string",
      description: "What clients dial for the first router.",
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
export type EdgeRouterStatus = z.output<typeof status>;
/** `status.routers[]`. */
export type RouterStatus = z.output<typeof router>;
export type EdgeRouterResource = Resource<EdgeRouterSpec, EdgeRouterStatus>;
