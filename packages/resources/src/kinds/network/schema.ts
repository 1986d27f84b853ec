import type { z } from "zod";
import { choice, duration, flag, freeForm, integer, list, struct, text } from "../../fields/bounded.ts";
import { type CelRule, exactlyOne, keeps } from "../../fields/cel.ts";
import { exposure, hostnamePattern } from "../../fields/exposure.ts";
import { configMapKeyRef, nameRef, objectName, secretKeyRef } from "../../fields/references.ts";
import { imageFields, podTemplate, retention, storageClassName, volumeSize } from "../../fields/workload.ts";
import { networkKind } from "../../group.ts";
import { defineKind, type Resource, serviceName, shortName, statusFields } from "../../kind-definition.ts";

const external = struct(
  "An existing network: the address of its controller, and how to log in.",
  {
    endpoints: list(
      "Base URLs of its Management API, tried in order, such as https://ctrl.example:1280/edge/management/v1.",
      text("One base.", { min: 9, max: 512, pattern: /^https:\/\/[^\s?#]+$/ }),
      { type: "atomic", min: 1, max: 16 },
    ),
    caBundle: struct(
      "Certificates of the authorities that verify the controller.",
      {
        configMapRef: configMapKeyRef("The certificates from a ConfigMap, PEM.").optional(),
        secretRef: secretKeyRef("The certificates from a Secret, PEM.").optional(),
        inline: text("The certificates, PEM.", { min: 1, max: 65_536 }).optional(),
      },
      [exactlyOne("configMapRef", "secretRef", "inline")],
    ).optional(),
    bootstrapTrust: struct("Fetches the certificates from the controller, and accepts only the one named here.", {
      fingerprint: text("SHA-256 fingerprint of the authority's certificate, hex.", {
        max: 95,
        pattern: /^([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}$/,
      }),
    }).optional(),
    auth: struct(
      "How the operator logs in.",
      {
        passwordSecretRef: nameRef("A Secret with the keys username and password.", "the Secret").optional(),
        certificateSecretRef: nameRef("A Secret with the keys tls.crt and tls.key.", "the Secret").optional(),
        extJwt: struct("A token of the operator's service account; the network needs an external JWT signer for it.", {
          audience: text("Audience of the token: sallyport://<namespace>/<name> of this Network.", {
            min: 1,
            max: 512,
          }),
          serviceAccountTokenLifetime: duration("Lifetime of a token.", { min: "10m", max: "24h" }).default("1h"),
        }).optional(),
      },
      [exactlyOne("passwordSecretRef", "certificateSecretRef", "extJwt")],
    ),
    ctrlEndpoints: list(
      "Addresses at which routers dial the controllers. Default: learned from the controller.",
      text("One address, such as tls:ctrl.example:1280.", {
        min: 7,
        max: 512,
        pattern: /^tls:(\[[0-9A-Fa-f:.]+\]|[^\s:]+):[0-9]{1,5}$/,
      }),
      { type: "atomic", max: 16 },
    ).optional(),
  },
  [
    {
      rule: "has(self.caBundle) || has(self.bootstrapTrust)",
      message: "caBundle or bootstrapTrust is needed: the operator does not trust a controller on first use",
      reason: "FieldValueRequired",
    },
  ],
);

const DATABASE_RULES: readonly CelRule[] = [
  exactlyOne("embedded", "urlSecretRef"),
  {
    rule: "has(self.embedded) == has(oldSelf.embedded)",
    message: "the kind of database is immutable: move the data by a backup into a new Network",
  },
];

/** Where a login may end: the controller checks the rest. */
const redirects = (description: string) =>
  list(description, text("One address.", { min: 4, max: 1024, pattern: /^[A-Za-z][-+.A-Za-z0-9]*:[!-~]+$/ }), {
    type: "atomic",
    max: 32,
  }).optional();

/** Fields of the controller's `edge.oidc` under their own names. Without a value the controller's default applies. */
const oidc = struct("Logins by OIDC, with which programs of OpenZiti 2.x and web consoles log in.", {
  enabled: flag(
    "Whether clients may log in by OIDC, which is the default. If not, they use the login of OpenZiti 1.x.",
  ).optional(),
  accessToken: duration("Lifetime of an access token.", { min: "1m", max: "24h" }).optional(),
  idToken: duration("Lifetime of an id token.", { min: "1m", max: "24h" }).optional(),
  refreshToken: duration(
    "Lifetime of a refresh token, at least 1m longer than that of an access token. Each use starts it again.",
    { min: "2m", max: "2160h" },
  ).optional(),
  keyLife: duration("How long one key signs tokens.", { min: "24h", max: "87600h" }).optional(),
  hosts: list(
    "Further host names under which clients log in, such as that of a proxy that passes TLS through. *.example.org stands for one label. The advertised name and the Service's name need no entry.",
    text("One host name or address, without a port.", {
      min: 1,
      max: 253,
      pattern: /^(\*\.)?[-_.:A-Za-z0-9]+$/,
    }),
    { type: "atomic", max: 32 },
  ).optional(),
  redirectUris: redirects(
    "Addresses that logins may lead to, besides those of programs on the client's own machine and <origin>/auth/callback of allowedOrigins. The port may be *.",
  ),
  postLogoutUris: redirects("The same for logouts, besides <origin>/auth/logout."),
});

/** What several controllers need that one does not. */
const REPLICA_RULES: readonly CelRule[] = [
  {
    rule: "self.replicas == 1 || has(self.database.urlSecretRef)",
    message:
      "more than one replica need database.urlSecretRef: the embedded database belongs to one controller. Move the data into a PostgreSQL of your own, in a new Network",
    fieldPath: ".replicas",
  },
  {
    rule: "self.replicas == 1 || self.exposure.type == 'NodePort' || !has(self.exposure.hostname) || has(self.exposure.replicaHostname)",
    message:
      "more than one replica with exposure.hostname need exposure.replicaHostname: routers connect to each controller at an address of its own, such as ctrl-{ordinal}.example.com",
    reason: "FieldValueRequired",
    fieldPath: ".exposure.replicaHostname",
  },
  {
    rule: "self.replicas == 1 || self.exposure.type != 'NodePort' || !has(self.exposure.port) || (has(self.exposure.replicaHostname) && self.exposure.replicaHostname.contains('{ordinal}'))",
    message:
      "more than one replica of type NodePort with exposure.port need {ordinal} in exposure.replicaHostname: otherwise all of them have one address",
    reason: "FieldValueRequired",
    fieldPath: ".exposure.replicaHostname",
  },
  {
    rule: "self.replicas == 1 || !has(self.exposure.nodePort) || self.exposure.nodePort + self.replicas <= 65535",
    message: "exposure.nodePort leaves no room for the ports of all replicas",
    fieldPath: ".exposure.nodePort",
  },
];

const managed = struct(
  "A network whose controller the operator runs.",
  {
    replicas: integer("Number of controllers. More than one need database.urlSecretRef.", { min: 1, max: 5 }).default(
      1,
    ),
    database: struct(
      "The database of the network.",
      {
        embedded: struct(
          "An embedded PostgreSQL in the controller's pod.",
          {
            size: volumeSize("Size of its volume; it may only grow.").default("1Gi"),
            storageClassName,
          },
          [keeps("storageClassName")],
        ).optional(),
        urlSecretRef: secretKeyRef("Value of a Secret with the URL of a PostgreSQL database.").optional(),
      },
      DATABASE_RULES,
    ).default({ embedded: { size: "1Gi" } }),
    port: integer("Port of the pod, for the API and for routers.", { min: 1024, max: 65_535 }).default(1280),
    exposure: exposure("Address of the controller, for pods and for external clients.", {
      types: ["ClusterIP", "LoadBalancer", "NodePort"],
      typeDescription: "ClusterIP: only inside the cluster. LoadBalancer, NodePort: with a Service of that type.",
      hostname:
        "Name in certificates and enrollment tokens. It must resolve inside and outside the cluster. The operator fills in {name} and {namespace}. Default: the Service's name.",
      hostnamePattern: hostnamePattern("name", "namespace"),
      port: "Advertised port. Default: port.",
      nodePort:
        "Node port. With several controllers, the following ones are those of the single controllers. Default: assigned by the cluster.",
      more: {
        fields: {
          replicaHostname: text(
            "Name of one of several controllers, in place of hostname, at which routers connect to it. The operator fills in {name}, {namespace} and {ordinal}, which counts from 0. Default: the name of the controller's Service; with NodePort: hostname.",
            { min: 1, max: 253, pattern: hostnamePattern("name", "namespace", "ordinal") },
          ).optional(),
        },
        rules: [
          {
            rule: "!has(self.replicaHostname) || self.type == 'NodePort' || self.replicaHostname.contains('{ordinal}')",
            message: "replicaHostname needs {ordinal}: routers connect to each controller at an address of its own",
            fieldPath: ".replicaHostname",
          },
        ],
      },
    }).prefault({ type: "ClusterIP" }),
    certificates: struct("The certificate of the API. The network's own authority always stays with the controller.", {
      issuerRef: struct("An issuer of cert-manager. Default: the network's own authority.", {
        name: objectName("Name of the issuer."),
        kind: choice("Issuer: of the same namespace. ClusterIssuer: of the cluster.", [
          "Issuer",
          "ClusterIssuer",
        ]).default("Issuer"),
        group: text("Group of an issuer that isn't cert-manager's own.", { min: 1, max: 253 }).optional(),
      }).optional(),
    }).optional(),
    adminSecretName: objectName(
      "Secret with username and password of the first administrator. If it does not exist, the operator creates it with a random password. Default: metadata.name with -admin.",
    ).optional(),
    retention: retention(
      "Retain: the volume and the Secret with the key of the store stay when the Network is deleted. Delete: they are deleted, and with them the network.",
    ).default("Retain"),
    allowedOrigins: list(
      "Web origins whose pages may call the APIs, as browsers write them, such as https://browzer.example.org. Default: none.",
      text("One origin.", {
        min: 8,
        max: 512,
        pattern: /^https?:\/\/([a-z0-9]([-a-z0-9.]*[a-z0-9])?|\[[0-9a-f:.]+\])(:[0-9]{1,5})?$/,
      }),
      { type: "atomic", max: 32 },
    ).optional(),
    oidc: oidc.optional(),
    keyType: choice(
      "Type of the key that serves the API and signs enrollment tokens. ec: P-256. rsa: 2048 bits, slower, for C SDKs from before 2023, which verify no other tokens.",
      ["ec", "rsa"],
    ).default("ec"),
    config: struct("The controller's configuration file.", {
      overrides: freeForm("Applied to the rendered file last: objects merge, lists are replaced, null deletes.", {
        max: 32,
      }).optional(),
    }).optional(),
    ...imageFields,
    template: podTemplate.optional(),
  },
  [
    keeps("adminSecretName"),
    {
      rule: "(has(self.keyType) ? self.keyType : 'ec') == (has(oldSelf.keyType) ? oldSelf.keyType : 'ec')",
      message: "keyType is immutable: create another Network",
      fieldPath: ".keyType",
    },
    ...REPLICA_RULES,
  ],
);

const spec = struct(
  "A network: one that exists, or one that the operator runs.",
  {
    external: external.optional(),
    managed: managed.optional(),
    roleScope: choice(
      "Global: attributes and selectors are used as written. Namespaced: they get the namespace as prefix, which isolates namespaces.",
      ["Global", "Namespaced"],
    ).default("Global"),
    allowAdminIdentities: flag("Whether an Identity may be an administrator of the network.").default(false),
    requestTimeout: duration("How long the operator waits for a response of the controller.", {
      min: "1s",
      max: "5m",
    }).default("15s"),
    maxRequestsPerSecond: integer("Maximum rate of the operator's requests to the controller.", {
      min: 1,
      max: 10_000,
    }).default(200),
  },
  [
    exactlyOne("external", "managed"),
    {
      rule: "has(self.managed) == has(oldSelf.managed)",
      message: "external and managed cannot be exchanged: create another Network",
    },
    keeps("roleScope"),
  ],
);

const status = struct("What the operator found and did.", {
  ...statusFields,
  serverVersion: text("Version of the controller.", { max: 256 }).optional(),
  apiVersion: text("Version of its Management API.", { max: 256 }).optional(),
  controllers: list(
    "Controllers of the network.",
    struct("One controller.", {
      name: text("Its name.", { max: 256 }),
      ctrlAddress: text("Where routers dial it.", { max: 512 }).optional(),
      online: flag("Whether it is online.").optional(),
    }),
    { type: "map", keys: ["name"], max: 64 },
  ).optional(),
  sessionIdentity: text("Name of the operator's identity in the network.", { max: 256 }).optional(),
  endpoints: list("Base URLs of the Management API of a managed network.", text("One base.", { max: 512 }), {
    type: "atomic",
    max: 16,
  }).optional(),
  adminSecretName: text("Secret with the first administrator of a managed network.", { max: 253 }).optional(),
  replicas: integer("Number of a managed network's controllers that have a pod.").optional(),
  readyReplicas: integer("Number of a managed network's controllers with a ready pod.").optional(),
  configHash: text("Hash of the file that a managed controller was last started with.", { max: 64 }).optional(),
  lastHandledRestart: text("The last value of the annotation sallyport.dev/restart-requested-at acted on.", {
    max: 256,
  }).optional(),
});

export const networkDefinition = defineKind({
  ...networkKind,
  shortNames: ["onet"],
  description: "A network for the other kinds: an existing controller, or one that the operator runs.",
  spec,
  status,
  rules: [shortName(40), { ...serviceName, rule: `has(self.spec.external) || ${serviceName.rule}` }],
  columns: [
    {
      name: "Controllers",
      type: "integer",
      description: "Controllers of a managed network that are ready.",
      jsonPath: ".status.readyReplicas",
    },
    {
      name: "Version",
      type: "string",
      description: "Version of the controller.",
      jsonPath: ".status.serverVersion",
    },
    {
      name: "Identity",
      type: "string",
      description: "Identity of the operator in the network.",
      jsonPath: ".status.sessionIdentity",
      priority: 1,
    },
    {
      name: "Endpoint",
      type: "string",
      description: "Address at which routers dial the controller.",
      jsonPath: ".status.controllers[0].ctrlAddress",
      priority: 1,
    },
  ],
});

export type ExternalNetwork = z.output<typeof external>;
export type ManagedNetwork = z.output<typeof managed>;
type NetworkSpec = z.output<typeof spec>;
export type NetworkStatus = z.output<typeof status>;
export type NetworkResource = Resource<NetworkSpec, NetworkStatus>;
