import { eventually } from "../network/eventually.ts";
import type { Stage } from "./stage.ts";

/** A figure of a run, as a JSON line; targets are for a quiet machine, and no run fails by them here. */
export function printFigure(figure: {
  readonly scenario: string;
  readonly what: string;
  readonly seconds: number;
  readonly target?: number;
}): void {
  console.log(JSON.stringify({ ...figure, seconds: Math.round(figure.seconds * 10) / 10 }));
}

interface Event {
  readonly reason: string;
  readonly message?: string;
  readonly note?: string;
  readonly eventTime: string | null;
}

/** Seconds from the creation of a router's pod until the operator saw it online; the former is known to the second. */
export async function secondsToOnline(stage: Stage, router: string): Promise<number> {
  const pod = await stage.get<{ metadata: { creationTimestamp: string } }>("pod", `${router}-0`);
  const onlineAt = async (): Promise<string | undefined> => {
    const events = await stage.kubectl("get", "events.events.k8s.io", "--output=json");
    const { items } = JSON.parse(events) as { items: Event[] };
    const isIt = ({ reason, note }: Event) => reason === "RouterOnline" && note === `router ${router} is online`;
    return items.find(isIt)?.eventTime ?? undefined;
  };
  // Events are written beside the work.
  const seen = await eventually(`an event tells that ${router} came online`, onlineAt);
  return (Date.parse(seen) - Date.parse(pod.metadata.creationTimestamp)) / 1000;
}
