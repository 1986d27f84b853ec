import { z } from "zod";
import { anyCase, duration, looseObject } from "./loose.ts";

/** What is done when a check has had results of a kind for a while. */
export interface HealthAction {
  readonly trigger: "fail" | "pass" | "change";
  /** So many results of the kind in a row at least. */
  readonly consecutiveEvents: number;
  /** For so long at least, in milliseconds. */
  readonly durationMs: number;
  readonly effect: HealthEffect;
}

export type HealthEffect =
  | { readonly kind: "mark healthy" | "mark unhealthy" | "send event" }
  | { readonly kind: "increase cost" | "decrease cost"; readonly by: number };

interface CheckTimes {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly actions: readonly HealthAction[];
}

/** Something that is looked at again and again (docs/protocol/configs.md, "Health checks"). */
export type HealthCheckConfig = CheckTimes &
  (
    | { readonly kind: "port"; readonly host: string; readonly port: number }
    | {
        readonly kind: "http";
        readonly url: string;
        readonly method: string;
        readonly body?: string | undefined;
        readonly expectStatus: number;
        readonly expectInBody?: string | undefined;
      }
  );

const effect = z.string().transform((text, context): HealthEffect => {
  const [, verb = "", rest = ""] = /^\s*(\S+)\s+(.*?)\s*$/.exec(text.toLowerCase()) ?? [];
  const kind = `${verb} ${rest}`;
  if (kind === "mark healthy" || kind === "mark unhealthy" || kind === "send event") return { kind };
  const [, by] = /^cost\s+(\d+)$/.exec(rest) ?? [];
  const amount = Number(by);
  if ((verb === "increase" || verb === "decrease") && amount >= 1 && amount <= 65_535) {
    return { kind: verb === "increase" ? "increase cost" : "decrease cost", by: amount };
  }
  context.addIssue({
    code: "custom",
    message: `expected mark healthy, mark unhealthy, increase cost N, decrease cost N (N 1 to 65535) or send event, got ${JSON.stringify(text)}`,
  });
  return z.NEVER;
});

const actions = z.array(
  looseObject({
    trigger: anyCase("fail", "pass", "change"),
    consecutiveEvents: z.int().min(0).max(65_535).optional(),
    duration: duration.optional(),
    action: effect,
  }),
);

const address = z.string().transform((text, context) => {
  const [, bracketed, plain, port = ""] = /^(?:\[([^\]]+)\]|([^:]*)):(\d{1,5})$/.exec(text) ?? [];
  if (Number(port) >= 1 && Number(port) <= 65_535)
    return { host: bracketed ?? (plain || "localhost"), port: Number(port) };
  context.addIssue({ code: "custom", message: `expected host:port, got ${JSON.stringify(text)}` });
  return z.NEVER;
});

/** The shortest time between two looks, so that a mistake does not keep the process busy. */
const MIN_INTERVAL_MS = 100;
const times = {
  interval: duration.refine((ms) => ms >= MIN_INTERVAL_MS, `expected at least ${MIN_INTERVAL_MS}ms`),
  timeout: duration.refine((ms) => ms > 0, "expected more than 0"),
  actions: actions.optional(),
};

export const portCheck = looseObject({ address, ...times });

export const httpCheck = looseObject({
  url: z.url({ protocol: /^https?$/ }),
  method: z.string().toUpperCase().optional(),
  body: z.string().optional(),
  expectStatus: z.int().min(100).max(599).optional(),
  expectInBody: z.string().optional(),
  ...times,
});

/** The checks of a terminator, those of ports first. */
export function healthChecks(
  ports: readonly z.infer<typeof portCheck>[],
  https: readonly z.infer<typeof httpCheck>[],
): HealthCheckConfig[] {
  return [
    ...ports.map((check) => ({ kind: "port" as const, ...check.address, ...timesOf(check) })),
    ...https.map((check) => ({
      kind: "http" as const,
      url: check.url,
      method: check.method ?? "GET",
      body: check.body,
      expectStatus: check.expectStatus ?? 200,
      expectInBody: check.expectInBody || undefined,
      ...timesOf(check),
    })),
  ];
}

function timesOf(check: z.infer<typeof portCheck> | z.infer<typeof httpCheck>): CheckTimes {
  return {
    intervalMs: check.interval,
    timeoutMs: check.timeout,
    actions: (check.actions ?? []).map((action) => ({
      trigger: action.trigger,
      consecutiveEvents: action.consecutiveEvents ?? 0,
      durationMs: action.duration ?? 0,
      effect: action.action,
    })),
  };
}
