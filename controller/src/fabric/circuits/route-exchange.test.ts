import { DestinationType } from "@sallyport/wire";
import { expect, test } from "vitest";
import { planRoutes } from "./route-exchange.ts";

const { Start, End, Link } = DestinationType;

test.each([
  [
    "one router joins ingress and egress",
    ["a"],
    [],
    [
      {
        routerId: "a",
        isTerminating: true,
        forwards: [
          { source: "in", destination: "out", toward: End },
          { source: "out", destination: "in", toward: Start },
        ],
      },
    ],
  ],
  [
    "three routers: ingress, transit, egress",
    ["a", "b", "c"],
    ["ab", "bc"],
    [
      {
        routerId: "a",
        isTerminating: false,
        forwards: [
          { source: "in", destination: "ab", toward: Link },
          { source: "ab", destination: "in", toward: Start },
        ],
      },
      {
        routerId: "b",
        isTerminating: false,
        forwards: [
          { source: "ab", destination: "bc", toward: Link },
          { source: "bc", destination: "ab", toward: Link },
        ],
      },
      {
        routerId: "c",
        isTerminating: true,
        forwards: [
          { source: "bc", destination: "out", toward: End },
          { source: "out", destination: "bc", toward: Link },
        ],
      },
    ],
  ],
])("%s", (_name, routers, links, expected) => {
  expect(planRoutes({ routers, links, ingressId: "in", egressId: "out" })).toEqual(expected);
});
