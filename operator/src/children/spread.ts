/** How pods that do the same are kept apart, where the spec says nothing else. A cluster without room still runs them. */
interface Spread {
  readonly affinity: object;
  readonly topologySpreadConstraints: readonly object[];
}

export function spreadOf(matchLabels: Readonly<Record<string, string>>): Spread {
  const labelSelector = { matchLabels };
  const topologyKey = "kubernetes.io/hostname";
  return {
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 100, podAffinityTerm: { labelSelector, topologyKey } },
        ],
      },
    },
    topologySpreadConstraints: ["topology.kubernetes.io/zone", topologyKey].map((topologyKey) => ({
      maxSkew: 1,
      topologyKey,
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector,
    })),
  };
}
