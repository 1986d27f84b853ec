import { ApiError, ApiTransportError } from "@sallyport/api/client";
import { describe, expect, test } from "vitest";
import { NetworkNotReadyError, OperationForbiddenError } from "../../../controller-client/errors.ts";
import { connectionProblem } from "../reconcile/use.ts";
import { connectionConditions, type Findings } from "./conditions.ts";
import { passing, stalled } from "./problem.ts";

const transport = (code?: string) =>
  new ApiTransportError(
    "https://c could not be called",
    code === undefined ? {} : { cause: Object.assign(new Error(code), { code }) },
  );

describe("what a failed call says of a network", () => {
  // biome-ignore format: a table
  test.each<[string, unknown, string | undefined, boolean]>([
    ["refused connection", transport("ECONNREFUSED"), "ControllerUnavailable", false],
    ["unknown name", transport("ENOTFOUND"), "ControllerUnavailable", false],
    ["other authority", transport("SELF_SIGNED_CERT_IN_CHAIN"), "UntrustedCertificate", true],
    ["unknown issuer", transport("UNABLE_TO_GET_ISSUER_CERT_LOCALLY"), "UntrustedCertificate", true],
    ["other name", transport("ERR_TLS_CERT_ALTNAME_INVALID"), "WrongCertificateName", true],
    ["ended certificate", transport("CERT_HAS_EXPIRED"), "CertificateExpired", true],
    ["certificate of another component", transport("NOT_A_CONTROLLER"), "NotAController", true],
    ["no API", transport(), "NotAController", true],
    ["broken server", new ApiError(500, "UNHANDLED", "m"), "ControllerUnavailable", false],
    ["too many requests", new ApiError(429, "RATE_LIMITED", "m"), "RateLimited", false],
    ["unauthorized", new ApiError(401, "UNAUTHORIZED", "m"), "NetworkUnauthorized", false],
    ["forbidden", new ApiError(403, "FORBIDDEN", "m"), "NotAdministrator", true],
    ["no such path", new ApiError(404, "NOT_FOUND", "m"), "NotAController", true],
    ["one call forbidden", new OperationForbiddenError("listControllers", undefined), "NotAdministrator", true],
    ["refused login, to be tried again", new NetworkNotReadyError("NetworkUnauthorized", "m", { retryAfterMs: 9 }), "NetworkUnauthorized", false],
    ["refused login", new NetworkNotReadyError("NetworkUnauthorized", "m", { isStalled: true }), "NetworkUnauthorized", true],
    ["a pause", new NetworkNotReadyError("RateLimited", "m", { retryAfterMs: 9 }), "RateLimited", false],
    ["a closed connection", new NetworkNotReadyError("NetworkNotReady", "m"), "ControllerUnavailable", false],
    ["a fault of the program", new TypeError("x"), undefined, false],
  ])("%s", (_name, error, reason, isStalled) => {
    const problem = connectionProblem(error, "the ConfigMap ca");
    expect(problem?.reason).toBe(reason);
    expect(problem?.isStalled ?? false).toBe(isStalled);
  });

  test("a certificate that isn't trusted: where to put its authority", () => {
    expect(connectionProblem(transport("INVALID_CA"), "the ConfigMap ca")?.message).toContain("the ConfigMap ca");
  });
});

describe("conditions", () => {
  const shown = (findings: Findings) =>
    connectionConditions(findings).map(({ type, status, reason }) => `${type} ${status} ${reason}`);
  const problem = passing("ControllerUnavailable", "m");
  test.each<[string, Findings, string[]]>([
    // biome-ignore format: a table
    [
      "all is well",
      { serverVersion: "v1", identity: "i" },
      ["Connected True Connected", "VersionSupported True Supported", "Authenticated True LoggedIn", "Ready True Ready"],
    ],
    [
      "nothing could be asked",
      { access: passing("SecretNotFound", "m") },
      [
        "Connected False SecretNotFound",
        "VersionSupported Unknown NotTried",
        "Authenticated Unknown NotTried",
        "Ready False SecretNotFound",
        "Reconciling True SecretNotFound",
      ],
    ],
    [
      "a person has to act",
      { serverVersion: "v0", version: stalled("UnsupportedVersion", "m") },
      [
        "Connected True Connected",
        "VersionSupported False UnsupportedVersion",
        "Authenticated Unknown NotTried",
        "Ready False UnsupportedVersion",
        "Stalled True UnsupportedVersion",
      ],
    ],
    [
      "the pod is not there",
      { isManaged: true, availability: passing("ControllerStarting", "m") },
      [
        "Deployed True Deployed",
        "Available False ControllerStarting",
        "Connected Unknown NotTried",
        "VersionSupported Unknown NotTried",
        "Authenticated Unknown NotTried",
        "Ready False ControllerStarting",
        "Reconciling True ControllerStarting",
      ],
    ],
  ])("%s", (_name, findings, expected) => expect(shown(findings)).toEqual(expected));

  const usable = ["Deployed True", "Available True", "Connected True", "VersionSupported True", "Authenticated True"];
  test.each<[string, ReturnType<typeof passing> | undefined, string[]]>([
    ["all are ready", undefined, ["ReplicasReady True AllReady", "Ready True Ready"]],
    [
      "one starts",
      passing("ControllerStarting", "the pod main-controller-2 is starting"),
      ["ReplicasReady False ControllerStarting", "Ready True Ready", "Reconciling True ControllerStarting"],
    ],
    [
      "one fails",
      stalled("ControllerFailing", "m"),
      ["ReplicasReady False ControllerFailing", "Ready True Ready", "Stalled True ControllerFailing"],
    ],
  ])("of several controllers, where %s", (_name, problem, expected) => {
    const replicas = { wanted: 3, ready: problem === undefined ? 3 : 2, problem };
    const found = connectionConditions({ isManaged: true, serverVersion: "v1", identity: "i", replicas });
    const texts = found.map(({ type, status, reason }) => `${type} ${status} ${reason}`);
    expect(texts.slice(0, 5).map((text) => text.replace(/ \w+$/, ""))).toEqual(usable);
    expect(texts.slice(5)).toEqual(expected);
    expect(found.find(({ type }) => type === "ReplicasReady")?.message).toBe(
      problem === undefined ? "3 of 3 controllers are ready" : `2 of 3 controllers are ready: ${problem.message}`,
    );
  });

  test("the first problem is the one of Ready", () => {
    const [first] = connectionConditions({ connection: problem, login: stalled("NotAdministrator", "x") }).filter(
      ({ type }) => type === "Ready",
    );
    expect(first).toMatchObject({ reason: "ControllerUnavailable", message: "m" });
  });
});
