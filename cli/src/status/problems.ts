/** What of a network's state fails, or is going to. Pure: a test has every rule. */
import { formatDuration } from "@sallyport/config-file/duration";
import { subjectWord } from "@sallyport/program/shell-word";
import type { Observed, Problem, RouterStatus } from "./network-status.ts";

const DAY_MS = 86_400_000;
/** When a certificate ends soon: with less left than either. */
interface Soon {
  readonly ms: number;
  readonly share: number;
}
/** Programs renew their own with 7 days or a third of the lifetime left: with less, something keeps them from it. */
const RENEWED: Soon = { ms: 5 * DAY_MS, share: 0.2 };
/** An administrator needs time. */
const BY_HAND: Soon = { ms: 30 * DAY_MS, share: 0.2 };

interface Dates {
  readonly validFromDate: Date;
  readonly validToDate: Date;
}

/**
 * @param isRenewed a program renews it by itself
 * @param now milliseconds
 */
export function certificateState(
  { validFromDate, validToDate }: Dates,
  isRenewed: boolean,
  now: number,
): "ok" | "ends soon" | "ended" {
  const left = validToDate.getTime() - now;
  if (left <= 0) return "ended";
  const { ms, share } = isRenewed ? RENEWED : BY_HAND;
  const lifetime = validToDate.getTime() - validFromDate.getTime();
  return left < Math.min(ms, share * lifetime) ? "ends soon" : "ok";
}

/** What fails first, then warnings. */
export function problemsOf(observed: Observed, now: number): Problem[] {
  const found = [
    ...controllerProblems(observed),
    ...routerProblems(observed, now),
    ...linkProblems(observed),
    ...certificateProblems(observed, now),
    ...serviceProblems(observed),
    ...identityProblems(observed),
    ...dialProblems(observed, now),
    ...moreProblems(observed),
  ];
  return [...found.filter(({ status }) => status === "failed"), ...found.filter(({ status }) => status === "warning")];
}

function controllerProblems({ controllers }: Observed): Problem[] {
  return controllers.flatMap(({ name, isOnline, isHealthy, failing = [] }): Problem[] => {
    const subject = `controller ${name}`;
    if (!isOnline) return [{ status: "failed", subject, message: "is offline" }];
    if (isHealthy !== false) return [];
    return [{ status: "failed", subject, message: `is not healthy: ${failing.join("; ") || "it does not say why"}` }];
  });
}

function routerProblems({ routers }: Observed, now: number): Problem[] {
  const online = routers.filter(({ isOnline }) => isOnline);
  return routers.flatMap((router): Problem[] => {
    const { name, isOnline, isEnrolled, disabled, links, lastSeenAt } = router;
    const subject = `router ${name}`;
    if (disabled) return [];
    if (!isEnrolled) return [notEnrolled(router, now)];
    if (!isOnline) {
      const since = lastSeenAt === undefined ? "" : `, last seen ${ago(lastSeenAt, now)} ago`;
      const message = `is offline${since}; on its machine, 'sallyport router status' and its log say why`;
      return [{ status: "failed", subject, message, command: `sallyport describe router ${subjectWord(router)}` }];
    }
    if (links > 0 || online.length < 2) return [];
    const message = "has no link: only applications on this router reach each other over it";
    return [{ status: "warning", subject, message, command: "sallyport get links" }];
  });
}

function notEnrolled(router: RouterStatus, now: number): Problem {
  const { id, name, enrollmentExpiresAt } = router;
  const subject = `router ${name}`;
  if (enrollmentExpiresAt !== undefined && Date.parse(enrollmentExpiresAt) < now) {
    const message = "was not enrolled before its token ended: make a new one";
    return { status: "warning", subject, message, command: `sallyport api POST /edge-routers/${id}/re-enroll` };
  }
  const command = `sallyport get edge-router ${subjectWord(router)} -o 'jsonpath=$.enrollmentJwt'`;
  return { status: "warning", subject, message: "is not enrolled yet: start it with its token", command };
}

function linkProblems({ links, routers }: Observed): Problem[] {
  const online = new Set(routers.filter(({ isOnline }) => isOnline).map(({ name }) => name));
  // Links of a router that is offline fail for that reason.
  const between = links.filter(({ from, to }) => online.has(from) && online.has(to));
  return between.flatMap(({ id, from, to, state, down }): Problem[] => {
    const subject = `link ${from} – ${to}`;
    const command = `sallyport describe link ${subjectWord({ id, name: id })}`;
    if (down) return [{ status: "warning", subject, message: "was taken out of service", command }];
    return state === "Connected" ? [] : [{ status: "failed", subject, message: `is ${state.toLowerCase()}`, command }];
  });
}

function certificateProblems({ certificates }: Observed, now: number): Problem[] {
  return certificates.flatMap(({ kind, id, name, notAfter, state }): Problem[] => {
    if (state === "ok") return [];
    const isOver = state === "ended";
    const when = isOver ? `ended ${ago(notAfter, now)} ago` : `ends in ${span(Date.parse(notAfter) - now)}`;
    const status = isOver ? "failed" : "warning";
    const [subject, entity] = [`${kind} ${name}`, subjectWord({ id, name })];
    if (kind === "router" || kind === "ca")
      return [{ status, subject, message: `the certificate ${when}`, command: `sallyport describe ${kind} ${entity}` }];
    const message = `the certificate ${when}; on the controller's machine, 'sallyport controller pki status' shows it`;
    return [{ status, subject, message }];
  });
}

function serviceProblems({ unhostedServices }: Observed): Problem[] {
  return unhostedServices.map((service): Problem => {
    const { name, host } = service;
    const subject = `service ${name}`;
    if (host === undefined) {
      const message = "is not hosted, and no identity may host it";
      return { status: "warning", subject, message, command: `sallyport describe service ${subjectWord(service)}` };
    }
    const command = `sallyport why ${subjectWord(host)} ${subjectWord(service)} --type bind`;
    return { status: "failed", subject, message: `is not hosted; ${host.name} may host it`, command };
  });
}

function identityProblems({ disabledIdentities }: Observed): Problem[] {
  return disabledIdentities.map((identity): Problem => {
    const { name, until } = identity;
    const end = until === undefined ? "until an administrator enables it" : `until ${until}, as after wrong passwords`;
    const command = `sallyport describe identity ${subjectWord(identity)}`;
    return { status: "warning", subject: `identity ${name}`, message: `cannot log in: it is disabled ${end}`, command };
  });
}

function dialProblems({ failedDials }: Observed, now: number): Problem[] {
  return failedDials.map(({ identity, service, type, message, count, at }): Problem => {
    const [verb, flag] = type === "Bind" ? ["host", " --type bind"] : ["dial", ""];
    const times = count > 1 ? `, ${count} times` : "";
    return {
      status: "warning",
      subject: `identity ${identity.name}`,
      message: `could not ${verb} ${service.name} ${ago(at, now)} ago${times}: ${message}`,
      command: `sallyport why ${subjectWord(identity)} ${subjectWord(service)}${flag}`,
    };
  });
}

/** What the lists leave out. */
function moreProblems({ counts, unhostedServices, disabledIdentities }: Observed): Problem[] {
  const services = (counts.unhostedServices ?? 0) - unhostedServices.length;
  const identities = (counts.disabledIdentities ?? 0) - disabledIdentities.length;
  const more = (subject: string, count: number, what: string, command: string): Problem[] =>
    count <= 0 ? [] : [{ status: "warning", subject, message: `${count} more ${what}`, command }];
  return [
    ...more("services", services, "are not hosted", "sallyport get services --filter 'isEmpty(terminators)'"),
    ...more("identities", identities, "are disabled", "sallyport get identities --filter disabled"),
  ];
}

function ago(time: string, now: number): string {
  return span(now - Date.parse(time));
}

/** A duration as people say it: no more than two units. */
export function span(ms: number): string {
  if (ms >= 2 * DAY_MS) return `${Math.floor(ms / DAY_MS)}d`;
  const unit = ms >= 3_600_000 ? 60_000 : 1_000;
  return formatDuration(Math.max(Math.floor(ms / unit), 0) * unit);
}
