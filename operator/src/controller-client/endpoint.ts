import {
  type ApiClient,
  ApiError,
  ApiTransportError,
  type CallOptions,
  createClient,
  ROUTES,
} from "@sallyport/api/client";
import { answersWithin, unlessHanging } from "@sallyport/async";

type ClientOptions = Parameters<typeof createClient>[1];
type ManagementApi = ApiClient<"management">;
type AnyCall = (input: object, options: CallOptions) => Promise<unknown>;

/** Milliseconds. */
export interface Patience {
  /** How long a call may take before its controller is asked whether it answers at all, and how long that answer may take. */
  readonly callMs: number;
  readonly probeMs: number;
}

const PATIENCE: Patience = { callMs: 2_000, probeMs: 2_000 };

/** No connection to the server came about, so it has seen nothing of the request. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "ECONNABORTED"]);

/** A controller that answers nothing, while another one may be asked instead. */
class ControllerHangsError extends ApiTransportError {}

/** One address of a network. */
export class Endpoint {
  readonly client: ManagementApi;
  readonly #baseUrl: string;
  readonly #patience: Patience;
  /** Over connections of its own: calls that wait for an answer must not keep a probe waiting. */
  readonly #prober: ManagementApi;
  /** Calls that wait share a probe. */
  #probe: Promise<boolean> | undefined;

  constructor(options: ClientOptions, patience = PATIENCE) {
    this.client = createClient("management", options);
    this.#prober = createClient("management", options);
    this.#baseUrl = options.baseUrl;
    this.#patience = patience;
  }

  /** @param hasOthers whether another address may be asked: one that hangs is left for it, unless it may have done the call */
  async call(
    id: string,
    input: object,
    options: CallOptions & { readonly signal: AbortSignal },
    hasOthers: boolean,
  ): Promise<unknown> {
    const call = (this.client as unknown as Readonly<Record<string, AnyCall>>)[id];
    if (call === undefined) throw new TypeError(`the Management API has no operation ${id}`);
    let isSent = false;
    const onSent = () => {
      isSent = true;
    };
    return await unlessHanging({
      work: (withdrawn) => call(input, { ...options, signal: AbortSignal.any([options.signal, withdrawn]), onSent }),
      patienceMs: this.#patience.callMs,
      hasAlternative: () => hasOthers && (isRepeatable(id) || !isSent),
      answers: () => this.#answers(),
      hangs: () => new ControllerHangsError(`${this.#baseUrl} answers nothing`),
    });
  }

  close(): void {
    this.client.close();
    this.#prober.close();
  }

  async #answers(): Promise<boolean> {
    this.#probe ??= answersWithin(this.#patience.probeMs, (signal) =>
      this.#prober.listVersion({}, { signal }).then(
        () => true,
        (error: unknown) => error instanceof ApiError,
      ),
    ).finally(() => {
      this.#probe = undefined;
    });
    return await this.#probe;
  }
}

/** Whether another address may be asked after a failure: the first one cannot have done the call, or doing it twice does no harm. */
export function mayMove(id: string, error: ApiTransportError): boolean {
  if (isRepeatable(id) || error instanceof ControllerHangsError) return true;
  return error.cause instanceof Error && "code" in error.cause && NOT_SENT.has(String(error.cause.code));
}

function isRepeatable(id: string): boolean {
  return ROUTES.management.routes[id]?.method !== "POST";
}
