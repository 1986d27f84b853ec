import { errorText } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { ListenError } from "../errors.ts";
import type { IncomingDial } from "./incoming-dial.ts";
import type { ListenOptions, OfferChange, ServiceListener } from "./service-listener.ts";

/** How a service is hosted with callbacks. */
export interface HostOptions extends Omit<ListenOptions, "signal" | "allowHalfOpen" | "onDial"> {
  /** Answers every dial by its `accept` or `reject`. */
  readonly onDial: (dial: IncomingDial) => void;
}

/** A service that is hosted until it is closed. */
export interface Hosted {
  /** Resolves when the service can be dialled for the first time, or when hosting was ended before. Never rejects. */
  readonly established: Promise<void>;
  /** Changes how likely this host is chosen. @throws ListenError `OPTION_INVALID` */
  update(o: OfferChange): void;
  /** Tells the network whether the application behind this host is well. */
  healthEvent(passed: boolean): void;
  /** Takes it back; connections that came through it go on. */
  close(): Promise<void>;
}

/** Time between two attempts to host a service that this identity may not host, or that does not exist. */
const RETRY_MS = 15_000;

/** Hosts a service, and tries again whenever that failed. */
export class RetriedHosting implements Hosted {
  readonly established: Promise<void>;
  readonly #establish: () => void;
  readonly #stopped = new AbortController();
  readonly #listen: (signal: AbortSignal) => Promise<ServiceListener>;
  readonly #service: string;
  readonly #log: Logger;
  #listener: ServiceListener | undefined;
  #retry: NodeJS.Timeout | undefined;
  /** What was changed before there was a listener. */
  #changes: OfferChange = {};

  /** @param listen offers the service; resolves when it is offered by a first router */
  constructor(listen: (signal: AbortSignal) => Promise<ServiceListener>, service: string, log: Logger) {
    this.#listen = listen;
    this.#service = service;
    this.#log = log;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.established = promise;
    this.#establish = resolve;
    this.#start();
  }

  update(o: OfferChange): void {
    this.#changes = { ...this.#changes, ...o };
    this.#listener?.update(o);
  }

  healthEvent(passed: boolean): void {
    this.#listener?.healthEvent(passed);
  }

  async close(): Promise<void> {
    clearTimeout(this.#retry);
    this.#stopped.abort(new ListenError("LISTENER_CLOSED", `hosting of ${this.#service} was ended`));
    this.#establish();
    await this.#listener?.close();
  }

  #start(): void {
    this.#listen(this.#stopped.signal).then(
      (listener) => this.#listening(listener),
      (error: unknown) => {
        if (this.#stopped.signal.aborted) return;
        const fields = { service: this.#service, reason: errorText(error) };
        this.#log.warn(fields, "a service cannot be hosted; trying again");
        this.#retry = setTimeout(() => this.#start(), RETRY_MS);
        this.#retry.unref();
      },
    );
  }

  #listening(listener: ServiceListener): void {
    this.#listener = listener;
    this.#establish();
    listener.on("error", (error) =>
      this.#log.warn({ service: this.#service, reason: error.message }, "hosting failed"),
    );
    if (this.#stopped.signal.aborted) void listener.close();
    else if (Object.keys(this.#changes).length > 0) listener.update(this.#changes);
  }
}
