/** Times as Windows counts them: steps of 100 ns since 1601 (MS-DTYP §2.3.3). */

const stepsPerMillisecond = 10_000n
const millisecondsTo1970 = 11_644_473_600_000n

export function fileTimeOf(date: Date): bigint {
  const milliseconds = BigInt(Math.trunc(date.getTime())) + millisecondsTo1970
  // 0 would mean "leave it as it is".
  return milliseconds <= 0n ? 1n : milliseconds * stepsPerMillisecond
}

export function dateOf(fileTime: bigint): Date {
  return new Date(Number(fileTime / stepsPerMillisecond - millisecondsTo1970))
}
