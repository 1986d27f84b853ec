import { errorText } from "@sallyport/async";
import {
  BaseHeader,
  type Channel,
  ControlType,
  ctrlPb,
  decodeControl,
  ManagementHeader,
  ManagementType,
  type Message,
} from "@sallyport/wire";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { forwardingTables } from "../inspectors.ts";
import type { LinkManager } from "../link/link-manager.ts";

export interface LocalOperationsParts {
  readonly controllers: Controllers;
  readonly forwarder: Forwarder;
  readonly links: LinkManager;
  /** Operations that change the router's state behind the controllers' backs are allowed. */
  readonly debugOps: boolean;
  /** Ends the process in good order. */
  readonly shutDown: () => void;
}

type LocalOperation = (message: Message) => string | Promise<string>;

/** How long a controller may take to drop the router it has deleted. */
const DECOMMISSION_MS = 1_000;

/** What operators may ask a router on its own machine (docs/router/observability.md, "The agent"). */
export class LocalOperations {
  readonly #parts: LocalOperationsParts;
  /** Addresses of controllers that were disconnected on purpose, by id. */
  readonly #disconnected = new Map<string, string>();

  constructor(parts: LocalOperationsParts) {
    this.#parts = parts;
  }

  serve(channel: Channel): void {
    const plain: [number, LocalOperation][] = [
      [ManagementType.DumpLinks, () => this.#links()],
      [ManagementType.DumpForwarderTables, () => forwardingTables(this.#parts.forwarder)],
      [ManagementType.QuiesceRouter, () => this.#ask("quiescing this router", ControlType.QuiesceRouter)],
      [ManagementType.DequiesceRouter, () => this.#ask("dequiescing this router", ControlType.DequiesceRouter)],
      [ManagementType.DecommissionRouter, () => this.#decommission()],
    ];
    const debug: [number, LocalOperation][] = [
      [ManagementType.ForgetLink, (message) => this.#forgetLink(message.body.toString("utf8"))],
      [ManagementType.ToggleControlChannel, (message) => this.#toggle(message)],
      [ManagementType.UpdateRoute, (message) => this.#route(message)],
      [ManagementType.Unroute, (message) => this.#unroute(message)],
    ];
    for (const [type, operation] of plain) answer(channel, type, operation);
    for (const [type, operation] of debug) {
      answer(channel, type, (message) => {
        if (this.#parts.debugOps) return operation(message);
        throw new Error("debug operations are not allowed: set enableDebugOps in the router's file");
      });
    }
  }

  #links(): string {
    const lines = this.#parts.links.links().map((l) => `id: ${l.id} dest: ${l.peerId} protocol: ${l.protocol}`);
    return lines.length === 0 ? "no links" : `${lines.join("\n")}\n`;
  }

  #forgetLink(id: string): string {
    const link = this.#parts.links.links().find((known) => known.id === id);
    if (link === undefined) return `link ${id} is not known here`;
    link.close(new Error("an operator of this router had it forgotten"));
    return `link ${id} was closed; the router that dialled it will dial again`;
  }

  async #ask(what: string, contentType: number): Promise<string> {
    return textOf(await this.#parts.controllers.repeatableRequest(what, { contentType }));
  }

  /** The controller answers with nothing but the end of the channel. */
  async #decommission(): Promise<string> {
    const { controllers, shutDown } = this.#parts;
    const controller = controllers.best();
    if (controller === undefined) throw new Error("no controller is connected");
    const out = { contentType: ControlType.DecommissionRouter };
    const refusal = controller.channel.request(out, { timeoutMs: DECOMMISSION_MS }).then(
      (reply) => textOf(reply),
      () => undefined,
    );
    await Promise.race([refusal, controller.channel.closed]);
    if (!controller.channel.isClosed) throw new Error(`controller ${controller.id} did not drop this router`);
    // The answer leaves first.
    setTimeout(shutDown, 100);
    return "router decommissioned; it stops now";
  }

  #toggle(message: Message): string {
    const { controllers } = this.#parts;
    const isOn = message.headers.getBool(ManagementHeader.ControlChannelToggle) ?? true;
    const id = message.body.toString("utf8");
    const wanted = isOn ? [...this.#disconnected.keys()] : controllers.all().map((controller) => controller.id);
    const ids = id === "" ? wanted : wanted.filter((known) => known === id);
    if (ids.length === 0) {
      const which = id === "" ? "no controller" : `controller ${id}`;
      throw new Error(`${which} is ${isOn ? "kept disconnected" : "connected"}`);
    }
    for (const known of ids) {
      const address = isOn ? this.#disconnected.get(known) : controllers.byId(known)?.address;
      if (address === undefined) continue;
      if (isOn) {
        this.#disconnected.delete(known);
        controllers.resume(address);
      } else {
        this.#disconnected.set(known, address);
        controllers.suspend(address);
      }
    }
    return `${isOn ? "dialling" : "disconnected from"} ${ids.join(", ")}`;
  }

  async #route(message: Message): Promise<string> {
    const controllerId = message.headers.getString(ManagementHeader.ControllerId) ?? "";
    const route = decodeControl(ctrlPb.RouteSchema, message.body);
    const outcome = await this.#parts.forwarder.route(route, controllerId);
    if (!outcome.ok) throw new Error(outcome.error ?? "the route could not be set up");
    return "route added";
  }

  #unroute(message: Message): string {
    const { circuitId, now } = decodeControl(ctrlPb.UnrouteSchema, message.body);
    this.#parts.forwarder.unroute(circuitId, now);
    return "circuit removed";
  }
}

function answer(channel: Channel, contentType: number, operation: LocalOperation): void {
  channel.handle(contentType, async (message) => {
    try {
      channel.replyResult(message, true, await operation(message));
    } catch (error) {
      if (!channel.isClosed) channel.replyResult(message, false, errorText(error));
    }
  });
}

/** The text of a Result. @throws Error with the text when it is a failure */
function textOf(reply: Message): string {
  const text = reply.body.toString("utf8");
  if (reply.headers.getBool(BaseHeader.ResultSuccess) === true) return text;
  throw new Error(text === "" ? "the controller refused without a reason" : text);
}
