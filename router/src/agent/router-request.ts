import { errorText } from "@sallyport/async";

/** The application's id in requests that only routers take. */
export const ROUTER_APPLICATION = 2;

/** The byte behind {@link ROUTER_APPLICATION} in an `AgentOp.Application` request. */
export const RouterRequest = {
  DumpApiSessions: 128,
  /** Ours: the status as JSON. */
  Status: 200,
  /** Ours: renews the certificates now; the answer is {@link RENEWED}, or the reason why not. */
  Extend: 201,
} as const;

/** What the agent of a running router answers when it has renewed its certificates; else the reason why not. */
export const RENEWED = "renewed";

/** Renews, as an agent's answer. */
export async function extendAnswer(renew: () => Promise<void>): Promise<string> {
  try {
    await renew();
    return RENEWED;
  } catch (error) {
    return errorText(error);
  }
}
