/** FILETIME: 100 ns intervals since 1601-01-01 UTC (MS-DTYP §2.3.3). */

const stepsPerMillisecond = 10_000n
const millisecondsTo1970 = 11_644_473_600_000n

export function fileTimeOf(date: Date): bigint {
  const milliseconds = BigInt(Math.trunc(date.getTime())) + millisecondsTo1970
  // 0 means "unchanged" in SET_INFO.
  return milliseconds <= 0n ? 1n : milliseconds * stepsPerMillisecond
}

export function dateOf(fileTime: bigint): Date {
  return new Date(Number(fileTime / stepsPerMillisecond - millisecondsTo1970))
}
