import { type Channel, type Identity, silentLogger } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { Control } from "../control/control.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import { ScriptedController, testControllers } from "./scripted-controller.ts";

/** Who the two ends are; made once, as keys take their time. */
export interface ControlIdentities {
  readonly controller: Identity;
  readonly router: Identity;
}

export async function controlIdentities(): Promise<ControlIdentities> {
  const authority = await TestAuthority.create();
  return { controller: await authority.identity("ctrl1"), router: await authority.identity("router1") };
}

/** The real control plane of a router, and a controller that answers as the test says. */
export interface ScriptedControl {
  readonly controller: ScriptedController;
  readonly controllers: Controllers;
  readonly control: Control;
  /** Connects, and waits until both ends know; resolves with the controller's end. */
  connect(): Promise<Channel>;
  close(): Promise<void>;
}

/** Starts both; they are not connected yet. */
export async function startScriptedControl(identities: ControlIdentities): Promise<ScriptedControl> {
  const controller = await ScriptedController.start(identities.controller);
  const controllers = testControllers(identities.router);
  const control = new Control({
    hasEdgeListener: false,
    routerId: "router1",
    controllers,
    log: silentLogger,
    edgeAddresses: () => [
      { protocol: "tls", listenHost: "0.0.0.0", listenPort: 3022, advertiseHost: "r1.example", advertisePort: 443 },
    ],
    heartbeatIntervalMs: 100,
    validate: { chunkSize: 2, minPauseMs: 0, maxPauseMs: 1 },
    connectEvents: { enabled: true, batchIntervalMs: 10, fullSyncIntervalMs: 60_000 },
    rateLimited: { workers: 5, queueLength: 100 },
  });
  return {
    controller,
    controllers,
    control,
    connect: async () => {
      const connected = new Promise<void>((resolve) => controllers.onConnected(() => resolve()));
      controllers.setEndpoints([controller.address]);
      await connected;
      return controller.channel();
    },
    close: async () => {
      control.close();
      controllers.stop();
      await controller.close();
    },
  };
}
