import { formatHostPort, type HostPort } from "@sallyport/wire";
import { stringify } from "yaml";

/** What `init` decides; everything else is written as a comment with its default. */
export interface NewControllerConfig {
  readonly api: { readonly bind: HostPort; readonly advertise: HostPort };
  readonly ctrl: { readonly bind: HostPort; readonly advertise: HostPort };
  readonly database: { readonly url: string } | { readonly dir: string };
  readonly secretKeyFile: string;
}

/** One value as it may stand after `key: `; quoted wherever any version of YAML would read it as something else than this text. */
export function yamlText(value: string): string {
  return stringify(value, { compat: "yaml-1.1", lineWidth: 0 }).trimEnd();
}

/** The text of a new `controller.yml`: every key, with what it means. */
export function writeControllerConfig(config: NewControllerConfig): string {
  const { api, ctrl, database } = config;
  const place = (address: HostPort) => yamlText(formatHostPort(address));
  const [urlLine, dirLine] =
    "url" in database
      ? [`  url: ${yamlText(database.url)}`, "  # dir: database"]
      : ["  # url: postgres://user:password@host:5432/database", `  dir: ${yamlText(database.dir)}`];
  return `# Configuration of a Sallyport controller. Start it with: sallyport-controller run controller.yml
# $NAME and \${NAME} stand for environment variables. Relative paths start from the folder of this file.
# A line that begins with "# " and a key shows the default of that key.
v: 1

# The HTTP APIs for clients and administrators.
api:
  # Where to listen, host:port.
  bind: ${place(api.bind)}
  # How clients reach it; stands in enrollment tokens, and the server certificate covers it.
  advertise: ${place(api.advertise)}
  # Your own certificates, for example from a public authority, for the names in them: PEM files, each a certificate followed by its chain.
  # serverCertificates: []
  # Origins whose pages in browsers may use the APIs, such as https://browzer.example.org.
  # web:
  #   allowedOrigins: []
  # How long the controller serves on after it was told to stop, while load balancers turn to another one.
  # drain: 0s

# The control channel for routers. The same bind address as the API means one shared port.
ctrl:
  bind: ${place(ctrl.bind)}
  advertise: ${place(ctrl.advertise)}

# Where several processes share this file and a database: the name of a process, and addresses of its own at which clients and routers reach it.
# api and ctrl above hold what all of them share. Each key is an option of run (--replica-id) and an environment variable (SALLYPORT_REPLICA_ID), too.
# replica:
#   id: c1
#   # Processes on this machine, c1-1, c1-2, …: they share api.bind, and each has the next port of ctrl and metrics. Needs database.url.
#   workers: 1
#   api:
#     bind: 0.0.0.0:1281
#     advertise: c1.example.org:1281
#   ctrl:
#     bind: 0.0.0.0:1281
#     advertise: c1.example.org:1281
#   metrics:
#     bind: 127.0.0.1:9465

# Where everything is kept: your own PostgreSQL (15 or newer), or the embedded one in a folder.
database:
${urlLine}
  # A file with the URL and nothing else.
  # urlFile: database.url
${dirLine}
  # Folder with the programs of another PostgreSQL for the embedded database.
  # binaries: /usr/lib/postgresql/17/bin
  # User that runs the embedded database when the controller is started as root.
  # user: postgres
  # Most connections at once.
  # poolSize: 16
  # Folder for the snapshots that administrators ask for over the API. Each is a whole backup.
  # snapshots: snapshots

# The key under which private keys and TOTP secrets in the database are encrypted. KEEP A COPY: without it the database is useless.
# The environment variable SALLYPORT_SECRET_KEY (the text of the file) goes before the file.
secretKeyFile: ${yamlText(config.secretKeyFile)}

edge:
  # An API session ends when it was not used for so long.
  # apiSessionTimeout: 30m
  enrollment:
    # How long enrollment tokens are good.
    # identity: 3h
    # router: 3h
  # Logins by OIDC, which clients of OpenZiti 2.x prefer. Without them all clients use POST /authenticate.
  oidc:
    # enabled: true
    # How long tokens are good. Each use of a refresh token replaces it by one that is good for as long again.
    # accessToken: 30m
    # idToken: 30m
    # refreshToken: 24h
    # How long a key signs tokens before a new one takes its place. It logs no client out.
    # keyLife: 90d
    # Further host names under which clients reach the controller; *.example.org stands for one label in front.
    # hosts: []
    # Where logins and logouts may lead back to, besides loopback addresses, openziti://auth/… and the pages of api.web.allowedOrigins.
    # redirectUris: []
    # postLogoutUris: []

auth:
  # Attempts to authenticate or enroll: so many at once, and so many a minute in the long run. What comes beyond is asked to come again later.
  rateLimits:
    # enabled: true
    address:
      # All attempts from one address. Thousands may share one behind a NAT.
      # burst: 2000
      # perMinute: 12000
    failures:
      # Wrong passwords for one user name from one address (from all addresses together: ten times as many).
      # burst: 50
      # perMinute: 60
  # API sessions of one identity at once. The one that is idle for longest gives way.
  # maxApiSessions: 1000
  # Where the keys of external JWT signers may be fetched from besides public addresses, and what to trust there besides the system's certificates.
  jwks:
    # allowedNetworks: []
    # Whether keys may come over http:, where an attacker on the way can replace them.
    # allowPlainHttp: false
    # caFile: idp-ca.pem

# Life of the certificates that this network issues. They are renewed 7 days, or a third of their life, before they end.
certificates:
  # controller: 365d
  # router: 365d
  # identity: 365d
  # session: 12h

network:
  # Attempts for one circuit, and how long to wait for the routers in each of them.
  # createCircuitRetries: 2
  # routeTimeoutSeconds: 10
  # How often circuits are looked at for better paths.
  # cycleSeconds: 60
  # Least cost of passing through a router.
  # minRouterCost: 10
  # Latency assumed for each end of a new link until it is measured.
  # initialLinkLatency: 65s
  # Within this time a router may take the place of its own connection three times, and not more often.
  # routerConnectChurnLimit: 1m
  smart:
    # Per cycle at most this part of all circuits, and at most so many, move to a path that is better by at least minCostDelta.
    # rerouteFraction: 0.02
    # rerouteCap: 4
    # minCostDelta: 15

metrics:
  # Figures for Prometheus at /metrics, over plain HTTP, for every client that reaches this address: use a loopback or closed one.
  # bind: 127.0.0.1:9464
  # Or at /metrics beside the APIs, for the owner of this certificate (PEM) only.
  # scrapeCertificate: prometheus.pem

# How long things stay when their time is over, and how often that is looked after.
upkeep:
  # Changes, for those who follow them.
  # changeLog: 1h
  # Enrollments that were never used.
  # expiredEnrollments: 30d
  # interval: 1m

log:
  # debug, info, warn or error
  level: info
  # json, text, or auto: text on a terminal
  # format: auto
`;
}
