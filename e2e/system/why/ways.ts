/** Ways to break a network that works: each with the code that has to come first in the answer. */
import { writeFileSync } from "node:fs";
import { enroll } from "@sallyport/sdk";
import { allow } from "../../network/tunneler.ts";
import type { Subject } from "./subject.ts";

export interface Way {
  readonly what: string;
  /** Of the problem that comes first, or how the code begins. */
  readonly code: string;
  /** A part of its message. */
  readonly message?: string;
  /** What an application reads behind `no edge router for web: `. */
  readonly saidBySdk?: string;
  /** @returns what repairs it */
  readonly breakIt: (subject: Subject) => Promise<() => Promise<unknown>>;
}

type Listed = Promise<{ readonly data: readonly { readonly id: string }[] }>;

/** The parameters that name the only entity of a list. */
async function only(list: Listed): Promise<{ readonly params: { readonly id: string } }> {
  const [found, ...more] = (await list).data;
  if (found === undefined || more.length > 0) throw new Error("there has to be exactly one entity of this name");
  return { params: { id: found.id } };
}

const named = (name: string) => ({ query: { filter: `name = "${name}"` } });
const id = (of: string) => ({ params: { id: of } });

const servicePolicy = ({ network: { management } }: Subject, name: string) =>
  only(management.listServicePolicies(named(name)));
const edgeRouterPolicy = ({ network: { management } }: Subject) =>
  only(management.listEdgeRouterPolicies(named("laptop")));
const serviceEdgeRouterPolicy = ({ network: { management } }: Subject) =>
  only(management.listServiceEdgeRouterPolicies(named("web")));

/** Gives the laptop an authentication policy of its own. */
async function withAuthPolicy(
  { network: { management }, laptop }: Subject,
  { certAllowed, requireTotp }: { readonly certAllowed: boolean; readonly requireTotp: boolean },
): Promise<() => Promise<unknown>> {
  const { data } = await management.createAuthPolicy({
    body: {
      name: "of the laptop",
      primary: {
        cert: { allowed: certAllowed, allowExpiredCerts: false },
        extJwt: { allowed: false, allowedSigners: [] },
        updb: {
          allowed: true,
          lockoutDurationMinutes: 0,
          maxAttempts: 0,
          minPasswordLength: 8,
          requireMixedCase: false,
          requireNumberChar: false,
          requireSpecialChar: false,
        },
      },
      secondary: { requireTotp },
    },
  });
  await management.patchIdentity({ ...id(laptop.id), body: { authPolicyId: data.id } });
  return async () => {
    await management.patchIdentity({ ...id(laptop.id), body: { authPolicyId: "default" } });
    await management.deleteAuthPolicy(id(data.id));
  };
}

const AUTHENTICATION: readonly Way[] = [
  {
    what: "the identity is disabled",
    code: "IDENTITY_DISABLED",
    async breakIt({ network: { management }, laptop }) {
      await management.disableIdentity({ ...id(laptop.id), body: { durationMinutes: 0 } });
      return () => management.enableIdentity(id(laptop.id));
    },
  },
  {
    what: "the identity has nothing to log in with",
    code: "NO_CREDENTIAL",
    async breakIt({ network: { management }, laptop }) {
      const authenticators = management.listAuthenticators({ query: { filter: `identity = "${laptop.id}"` } });
      await management.deleteAuthenticator(await only(authenticators));
      return async () => {
        const expiresAt = new Date(Date.now() + 600_000).toISOString();
        const body = { identityId: laptop.id, method: "ott" as const, expiresAt };
        const { data } = await management.createEnrollment({ body });
        const { data: enrollment } = await management.detailEnrollment(id(data.id));
        writeFileSync(laptop.file, JSON.stringify(await enroll(enrollment.jwt ?? "")), { mode: 0o600 });
      };
    },
  },
  {
    what: "its authentication policy forbids certificates",
    code: "METHOD_NOT_ALLOWED",
    breakIt: (subject) => withAuthPolicy(subject, { certAllowed: false, requireTotp: false }),
  },
  {
    what: "its authentication policy wants a one-time code",
    code: "SECOND_FACTOR_NOT_ENROLLED",
    breakIt: (subject) => withAuthPolicy(subject, { certAllowed: true, requireTotp: true }),
  },
];

const POLICIES: readonly Way[] = [
  {
    what: "no policy lets the identity dial",
    code: "NO_SERVICE_POLICY",
    async breakIt(subject) {
      await subject.network.management.deleteServicePolicy(await servicePolicy(subject, "Dial laptop web"));
      return () => subject.letDial();
    },
  },
  {
    what: "the identity has the wrong attribute",
    code: "IDENTITY_NOT_SELECTED",
    async breakIt({ network: { management }, laptop }) {
      const patch = (roleAttributes: string[]) =>
        management.patchIdentity({ ...id(laptop.id), body: { roleAttributes } });
      await patch(["laptops"]);
      return () => patch(["laptop"]);
    },
  },
  {
    what: "the service has the wrong attribute",
    code: "SERVICE_NOT_SELECTED",
    async breakIt({ network: { management }, service }) {
      const patch = (roleAttributes: string[]) =>
        management.patchService({ ...id(service.id), body: { roleAttributes } });
      await patch(["website"]);
      return () => patch(["web"]);
    },
  },
  {
    what: "the policy lets it host instead of dial",
    code: "OTHER_TYPE_ONLY",
    async breakIt(subject) {
      const { management } = subject.network;
      const policy = await servicePolicy(subject, "Dial laptop web");
      const patch = (type: "Dial" | "Bind") => management.patchServicePolicy({ ...policy, body: { type } });
      await patch("Bind");
      return () => patch("Dial");
    },
  },
  {
    what: "a posture check fails",
    code: "POSTURE",
    async breakIt(subject) {
      const { management } = subject.network;
      const policy = await servicePolicy(subject, "Dial laptop web");
      const macAddresses = ["00:00:5e:00:53:01"];
      const body = { name: "mac", typeId: "MAC" as const, macAddresses, roleAttributes: ["mac"] };
      const { data: check } = await management.createPostureCheck({ body });
      await management.patchServicePolicy({ ...policy, body: { postureCheckRoles: ["#mac"] } });
      return async () => {
        await management.patchServicePolicy({ ...policy, body: { postureCheckRoles: [] } });
        await management.deletePostureCheck(id(check.id));
      };
    },
  },
  {
    what: "no edge router policy selects the identity",
    code: "NO_EDGE_ROUTER_POLICY",
    saidBySdk: "no edge router policy",
    async breakIt(subject) {
      const { management } = subject.network;
      await management.deleteEdgeRouterPolicy(await edgeRouterPolicy(subject));
      const roles = { identityRoles: ["#laptop"], edgeRouterRoles: ["#r1"] };
      return () => management.createEdgeRouterPolicy({ body: { name: "laptop", semantic: "AnyOf", ...roles } });
    },
  },
  {
    what: "its edge router policy selects no router",
    code: "EDGE_ROUTER_POLICY_EMPTY",
    saidBySdk: "no edge router policy",
    async breakIt(subject) {
      const policy = await edgeRouterPolicy(subject);
      const patch = (edgeRouterRoles: string[]) =>
        subject.network.management.patchEdgeRouterPolicy({ ...policy, body: { edgeRouterRoles } });
      await patch(["#nowhere"]);
      return () => patch(["#r1"]);
    },
  },
  {
    what: "no service edge router policy selects the service",
    code: "NO_SERVICE_EDGE_ROUTER_POLICY",
    saidBySdk: "no service edge router policy",
    async breakIt(subject) {
      await subject.network.management.deleteServiceEdgeRouterPolicy(await serviceEdgeRouterPolicy(subject));
      return () => subject.letServiceUseRouters("#all");
    },
  },
  {
    what: "the service edge router policy selects no router",
    code: "SERVICE_EDGE_ROUTER_POLICY_EMPTY",
    saidBySdk: "no service edge router policy",
    breakIt: (subject) => withServiceRouters(subject, "#nowhere"),
  },
  {
    what: "identity and service have no router in common",
    code: "NO_COMMON_EDGE_ROUTER",
    breakIt: (subject) => withServiceRouters(subject, "#r2"),
  },
];

async function withServiceRouters(subject: Subject, role: string): Promise<() => Promise<unknown>> {
  const policy = await serviceEdgeRouterPolicy(subject);
  const patch = (edgeRouterRole: string) =>
    subject.network.management.patchServiceEdgeRouterPolicy({ ...policy, body: { edgeRouterRoles: [edgeRouterRole] } });
  await patch(role);
  return () => patch("#all");
}

const ROUTERS: readonly Way[] = [
  {
    what: "the router of the identity is disabled",
    code: "EDGE_ROUTERS_DISABLED",
    saidBySdk: "no edge router policy gives your identity an enabled edge router",
    async breakIt({ network: { management } }) {
      const router = await only(management.listEdgeRouters(named("r1")));
      const patch = (disabled: boolean) => management.patchEdgeRouter({ ...router, body: { disabled } });
      await patch(true);
      return () => patch(false);
    },
  },
  {
    what: "the router of the identity has gone",
    code: "EDGE_ROUTER_OFFLINE",
    async breakIt({ network }) {
      await network.stopProgram("r1");
      return () => network.startRouter("r1");
    },
  },
  {
    what: "the router of the host has gone",
    code: "HOST_ROUTERS_OFFLINE",
    async breakIt({ network }) {
      await network.stopProgram("r2", "SIGKILL");
      return () => network.startRouter("r2");
    },
  },
  {
    what: "the link between the routers was taken out of service",
    code: "NO_PATH",
    async breakIt({ fabric }) {
      const { data } = await fabric.listLinks();
      const patch = (down: boolean) =>
        Promise.all(data.map((link) => fabric.patchLink({ ...id(link.id), body: { down } })));
      await patch(true);
      return () => patch(false);
    },
  },
];

const HOSTS: readonly Way[] = [
  {
    what: "the host has gone",
    code: "NOT_HOSTED",
    async breakIt(subject) {
      await subject.stopHost();
      return () => subject.startHost();
    },
  },
  {
    what: "no policy lets an identity host",
    code: "NO_BIND_POLICY",
    async breakIt(subject) {
      const { management } = subject.network;
      const policy = await servicePolicy(subject, "Bind backend web");
      await management.deleteServicePolicy(policy);
      return () => allow(subject.network, "Bind", "backend", "web");
    },
  },
  {
    what: "the host's server listens on another port",
    code: "ROUTER_ERR_",
    message: "ECONNREFUSED",
    async breakIt(subject) {
      await subject.stopServer();
      return () => subject.startServer();
    },
  },
  {
    what: "the host cannot resolve the name of its server",
    code: "ROUTER_ERR_",
    message: "no-such-server.invalid",
    async breakIt({ network: { management }, service, port }) {
      const patch = (address: string) =>
        management.patchConfig({
          ...id(service.configs["host.v1"] ?? ""),
          body: { data: { protocol: "tcp", address, port } },
        });
      await patch("no-such-server.invalid");
      return () => patch("127.0.0.1");
    },
  },
];

export const WAYS: readonly Way[] = [...AUTHENTICATION, ...POLICIES, ...ROUTERS, ...HOSTS];
