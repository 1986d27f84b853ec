/** Ways to break a network that works: each with the code that has to come first in the answer. */
import { freePort } from "@sallyport/wire/testing/free-ports";
import { allow } from "../../network/tunneler.ts";
import { AUTHENTICATION } from "./authentication-ways.ts";
import { CLOCKS } from "./clock-ways.ts";
import type { Subject } from "./subject.ts";
import { id, named, only, type Way } from "./way.ts";

const servicePolicy = ({ network: { management } }: Subject, name: string) =>
  only(management.listServicePolicies(named(name)));
const edgeRouterPolicy = ({ network: { management } }: Subject) =>
  only(management.listEdgeRouterPolicies(named("laptop")));
const serviceEdgeRouterPolicy = ({ network: { management } }: Subject) =>
  only(management.listServiceEdgeRouterPolicies(named("web")));

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
    saidBySdk: /no edge router for web: no edge router policy/,
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
    saidBySdk: /no edge router for web: no edge router policy/,
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
    saidBySdk: /no edge router for web: no service edge router policy/,
    async breakIt(subject) {
      await subject.network.management.deleteServiceEdgeRouterPolicy(await serviceEdgeRouterPolicy(subject));
      return () => subject.letServiceUseRouters("#all");
    },
  },
  {
    what: "the service edge router policy selects no router",
    code: "SERVICE_EDGE_ROUTER_POLICY_EMPTY",
    saidBySdk: /no edge router for web: no service edge router policy/,
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
    saidBySdk: /no edge router for web: no edge router policy gives your identity an enabled edge router/,
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
    what: "the host's server does not run",
    code: "ROUTER_ERR_GENERIC",
    message: "ECONNREFUSED",
    remedy: "correct its port in the config host.v1",
    async breakIt(subject) {
      await subject.stopServer();
      return () => subject.startServer();
    },
  },
  {
    what: "the host dials another port than that of its server",
    code: "ROUTER_ERR_GENERIC",
    message: "ECONNREFUSED",
    remedy: "correct its port in the config host.v1",
    breakIt: async (subject) => withServer(subject, { port: await freePort() }),
  },
  {
    what: "the host cannot resolve the name of its server",
    code: "ROUTER_ERR_GENERIC",
    message: "no-such-server.invalid",
    remedy: "Correct the host name in the config host.v1",
    breakIt: (subject) => withServer(subject, { address: "no-such-server.invalid" }),
  },
];

/** Tells the host another server than the one that runs. */
async function withServer(
  { network: { management }, service, port }: Subject,
  wrong: { readonly address?: string; readonly port?: number },
): Promise<() => Promise<unknown>> {
  const right = { protocol: "tcp", address: "127.0.0.1", port };
  const config = id(service.configs["host.v1"] ?? "");
  const patch = (data: object) => management.patchConfig({ ...config, body: { data: { ...data } } });
  await patch({ ...right, ...wrong });
  return () => patch(right);
}

export const WAYS: readonly Way[] = [...AUTHENTICATION, ...CLOCKS, ...POLICIES, ...ROUTERS, ...HOSTS];
