/** A double of 115, of either API, as the drive of the stories of daemons. */
import type { start115 } from '../../doubles/115/index.js'
import type { Open115 } from '../../doubles/115-open.js'
import type { DaemonDrive, StagingDrive } from '../daemon-drive.js'

/** Bytes of each part but the last of a file of the stories. */
export const partLength = 20 * 1024 * 1024
/** The call that offers a file, of either API. */
const begin = /\/initupload\.php|\/upload\/init$/

export function driveOf(
  double: Open115 | Awaited<ReturnType<typeof start115>>,
  driver: string,
  addition: DaemonDrive['addition'],
): StagingDrive {
  const { requests } = double.uploads.oss
  return {
    environment: double.environment,
    driver,
    addition,
    sentBytes: () => requests.bodyBytes(/^PUT/),
    slowDown: () => requests.inject(/partNumber/, { delay: 300 }, 1000),
    stored: (isKnown) =>
      new Promise((resolve) => {
        const fault = { holdAnswer: () => resolve() }
        // The first of these calls is answered by the range of the proof.
        if (isKnown) double.requests.inject(begin, { delay: 0 })
        if (isKnown) double.requests.inject(begin, fault)
        else requests.inject(/^(?:PUT [^?]*$|POST .*\?uploadId=)/, fault)
      }),
    staged: () => double.drive.members('0').flatMap(({ name }) => (name.startsWith('.~') ? [name] : [])),
    files: () =>
      double.drive
        .members('0')
        .filter(({ name }) => !name.startsWith('.~'))
        .map(({ name, content }) => [name, content?.sha1.toLowerCase() ?? ''] as const),
  }
}
