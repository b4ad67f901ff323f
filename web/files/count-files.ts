/** Counting what folders have, by listing them one after the other. */

export interface Count {
  readonly files: number
  readonly folders: number
  /** The bytes of the files. */
  readonly size: number
  /** Number of folders that could not be listed. */
  readonly unread: number
  /** Whether everything was counted: nothing unread, no bound reached. */
  readonly isComplete: boolean
}

interface Counted {
  readonly name: string
  readonly is_dir: boolean
  readonly size: number
}

interface CountOptions {
  /** A page of a folder, and the number of entries on all pages. Pages begin with 0. */
  readonly list: (
    path: string,
    page: number,
  ) => Promise<{ readonly content: readonly Counted[]; readonly total: number }>
  /** Called after each page. */
  readonly onCount: (count: Count) => void
  readonly signal: AbortSignal
}

/** A count ends when it has seen this many entries, or has sent this many requests. */
export const mostCounted = { entries: 500_000, requests: 5000 } as const

/** Counts what is in the folders, at any depth. Ends at a bound, and when the signal is aborted. */
export async function countFiles(
  folders: readonly string[],
  { list, onCount, signal }: CountOptions,
  most: { readonly entries: number; readonly requests: number } = mostCounted,
): Promise<Count> {
  const waiting = [...folders]
  let count: Count = { files: 0, folders: 0, size: 0, unread: 0, isComplete: false }
  let requests = 0
  const isBounded = () => signal.aborted || requests >= most.requests || count.files + count.folders >= most.entries
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    for (let page = 0, seen = 0, total = 1; seen < total; page++) {
      if (isBounded()) return count
      requests++
      try {
        const listed = await list(folder, page)
        const { content } = listed
        const inner = content.filter((entry) => entry.is_dir)
        for (const { name } of inner) waiting.push(folder === '/' ? `/${name}` : `${folder}/${name}`)
        count = {
          ...count,
          files: count.files + content.length - inner.length,
          folders: count.folders + inner.length,
          size: count.size + content.reduce((sum, { size, is_dir: isFolder }) => sum + (isFolder ? 0 : size), 0),
        }
        total = content.length === 0 ? 0 : listed.total
        seen += content.length
      } catch {
        if (signal.aborted) return count
        count = { ...count, unread: count.unread + 1 }
        total = 0
      }
      onCount(count)
    }
  }
  return { ...count, isComplete: count.unread === 0 }
}
