import { type Address, ControlHello, ctrlPb, encodeControl, Headers, versionInfo } from "@sallyport/wire";

/** What the hello of a control channel says about the router (docs/protocol/control.md, "Hello"). */
export function helloHeaders(
  listeners: readonly {
    advertiseText: string;
    bind: Address;
    costTags: string[];
    groups: string[];
    localBinding: string;
  }[],
): Headers {
  const headers = new Headers().setString(ControlHello.Version, versionInfo());
  if (listeners.length > 0) {
    const body = encodeControl(ctrlPb.ListenersSchema, {
      listeners: listeners.map((listener) => ({
        address: listener.advertiseText,
        protocol: listener.bind.protocol,
        costTags: listener.costTags,
        groups: listener.groups,
        localBinding: listener.localBinding,
      })),
    });
    headers.set(ControlHello.Listeners, body);
  }
  const capabilities = [ctrlPb.RouterCapability.LinkManagement];
  return headers.set(ControlHello.RouterMetadata, encodeControl(ctrlPb.RouterMetadataSchema, { capabilities }));
}
