import type { edgeClientPb } from "@sallyport/wire";
import type { SessionPosture } from "./posture-type.ts";
import { type DevicePosture, type PostureState, takeReport } from "./types.ts";

/** Programs that one API session may report. */
export const MAX_PROCESSES = 1_000;
/** What is kept of one API session, as JSON. */
export const MAX_POSTURE_BYTES = 64 * 1024;

/** What is known after a device reported to a router, and the proofs of passed TOTP that came with it: the caller verifies them. */
interface TakenReports {
  readonly state: PostureState;
  readonly totpTokens: readonly string[];
}

/**
 * Takes what a device says to a router. Reports name no check; programs are merged by path, since SDKs send them in several lists.
 * Source: docs/protocol/posture.md, "At the router".
 *
 * @param now milliseconds since 1970
 * @returns undefined when more than {@link MAX_PROCESSES} programs or {@link MAX_POSTURE_BYTES} would have to be kept
 */
export function reportsOfWire(
  { responses }: edgeClientPb.PostureResponses,
  before: PostureState,
  now: number,
): TakenReports | undefined {
  let { device, session } = before;
  const totpTokens: string[] = [];
  for (const { type } of responses) {
    switch (type.case) {
      case "os": {
        const { type: system, version, build } = type.value;
        device = taken("OS", { typeId: "OS", id: "", type: system, version, build }, now, device);
        break;
      }
      case "domain":
        device = taken("DOMAIN", { typeId: "DOMAIN", id: "", domain: type.value.name }, now, device);
        break;
      case "macs":
        device = taken("MAC", { typeId: "MAC", id: "", macAddresses: type.value.addresses }, now, device);
        break;
      case "processList":
        device = withProcesses(device, type.value.processes, now);
        if (device.processes.length > MAX_PROCESSES) return undefined;
        break;
      case "woken":
        session = laterOf(session, "wokenAt", timeOf(type.value, now));
        break;
      case "unlocked":
        session = laterOf(session, "unlockedAt", timeOf(type.value, now));
        break;
      case "totpToken":
        totpTokens.push(type.value.token);
        break;
      default:
      // What an SDK says about itself, and kinds of later versions: no check asks for them.
    }
  }
  if (device !== before.device && JSON.stringify(device).length > MAX_POSTURE_BYTES) return undefined;
  return { state: { device, session }, totpTokens };
}

/** TOTP was passed at this moment. A later time that is known already stays. */
export function withTotp(state: PostureState, passedAt: number): PostureState {
  return { ...state, session: laterOf(state.session, "mfaPassedAt", passedAt) };
}

function taken(...[type, report, at, before]: Parameters<typeof takeReport>): DevicePosture {
  const known = takeReport(type, report, at, before);
  return "device" in known ? known.device : before;
}

function withProcesses(
  device: DevicePosture,
  processes: readonly edgeClientPb.PostureResponse_Process[],
  at: number,
): DevicePosture {
  const byPath = new Map(device.processes.map((each) => [each.path, each]));
  for (const { path, isRunning, hash, signerFingerprints } of processes) {
    byPath.set(path, { at, checkId: "", path, isRunning, hash, signerFingerprints });
  }
  return { ...device, processes: [...byPath.values()] };
}

function laterOf(session: SessionPosture, event: keyof SessionPosture, at: number): SessionPosture {
  return (session[event] ?? 0) >= at ? session : { ...session, [event]: at };
}

/** The clock of a device may be ahead of the router: an event has not happened later than now. */
function timeOf({ time }: edgeClientPb.PostureResponse_Woken | edgeClientPb.PostureResponse_Unlocked, now: number) {
  return time === undefined ? now : Math.min(now, Number(time.seconds) * 1000 + Math.floor(time.nanos / 1e6));
}
