/** A double of 115, of either API, as the drive of the stories of daemons. */
import type { start115 } from '../doubles/115/index.js'
import type { Open115 } from '../doubles/115-open.js'
import type { DaemonDrive } from './daemon-drive.js'

/** Bytes of each part but the last of a file of the stories. */
export const partLength = 20 * 1024 * 1024

export function driveOf(
  double: Open115 | Awaited<ReturnType<typeof start115>>,
  driver: string,
  addition: DaemonDrive['addition'],
): DaemonDrive {
  const { requests } = double.uploads.oss
  return {
    environment: double.environment,
    driver,
    addition,
    sentBytes: () => requests.bodyBytes(/^PUT/),
    slowDown: () => requests.inject(/partNumber/, { delay: 300 }, 1000),
    files: () =>
      double.drive
        .members('0')
        .filter(({ name }) => !name.startsWith('.~'))
        .map(({ name, content }) => [name, content?.sha1.toLowerCase() ?? ''] as const),
  }
}
