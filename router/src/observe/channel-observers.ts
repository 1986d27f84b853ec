import type { Channel, ObservedMessage } from "@sallyport/wire";

export type MessageObserver = (message: ObservedMessage) => void;

const lists = new WeakMap<Channel, Set<MessageObserver>>();

/** Lets several observe one channel, which itself has room for one. @returns ends it; the channel is then as fast as before */
export function observe(channel: Channel, observer: MessageObserver): () => void {
  const all = lists.get(channel) ?? new Set();
  lists.set(channel, all);
  all.add(observer);
  channel.observer = (message) => {
    for (const each of all) each(message);
  };
  return () => {
    all.delete(observer);
    if (all.size === 0) channel.observer = undefined;
  };
}
