/** What the dialogs that change a folder have in common. */
import { useEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from '../api/client.ts'
import { textsOf } from '../texts/texts.ts'
import { showChanges } from '../entries/folder.ts'
import { clearSelection } from './selection.ts'

const texts = textsOf('changes')

/** The props of these dialogs. */
export interface ChangeProps {
  /** The folder. */
  readonly path: string
  /** The selected entries. */
  readonly names: readonly string[]
  readonly onClose: () => void
}

/** Names in one request: a request has a limited size, and is complete in a reasonable time. */
export const namesPerRequest = 500

interface Batches {
  /** Number of names that are done; 0 before the start. */
  readonly done: number
  /**
   * Sends the items in requests of limited size, one after the other. Rejects with the error of the first that fails,
   * and when the dialog is closed. Called again, it goes on with the request that failed, if `items` has the same ones.
   * Whatever happens, the folders are shown as they are then.
   */
  send<Item>(
    items: readonly Item[],
    folders: readonly string[],
    request: (items: readonly Item[], signal: AbortSignal) => Promise<unknown>,
  ): Promise<void>
}

export function useBatches(): Batches {
  const [done, setDone] = useState(0)
  const sent = useRef<{ readonly key: string; count: number }>()
  const [controller] = useState(() => new AbortController())
  useEffect(() => () => controller.abort(), [controller])
  return {
    done,
    async send(items, folders, request) {
      const key = JSON.stringify([items, folders])
      if (sent.current?.key !== key) sent.current = { key, count: 0 }
      const progress = sent.current
      try {
        for (; progress.count < items.length; progress.count += namesPerRequest) {
          setDone(progress.count)
          await plainly(request(items.slice(progress.count, progress.count + namesPerRequest), controller.signal))
        }
        clearSelection()
      } finally {
        await showChanges(...folders)
      }
    },
  }
}

/** Awaits a request. Says in plain words that a name is taken. */
export async function plainly<Result>(request: Promise<Result>): Promise<Result> {
  try {
    return await request
  } catch (error) {
    const name = takenName(error)
    if (name === undefined) throw error
    throw new Error(texts.changes.exists(name), { cause: error })
  }
}

/** The name that exists already, if that is why the server has refused a change. */
export function takenName(error: unknown): string | undefined {
  if (!(error instanceof ApiError) || error.error !== 'name_taken') return undefined
  return error.message.slice('file ['.length, -'] exists'.length)
}
