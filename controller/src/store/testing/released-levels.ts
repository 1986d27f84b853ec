/** Schema levels of the releases whose controllers work beside those of the next one, oldest first. Version 0.2.0 was the first. */
export const RELEASED_LEVELS: readonly number[] = [43];
