/** Moving and copying entries to another folder. */
import { signal } from '@preact/signals'
import { ApiError } from '../api/client.ts'
import { reporting } from '../components/notices.tsx'
import { isWithin } from '../components/places.ts'
import { withTexts } from '../texts/texts.ts'

export type TransferKind = 'move' | 'copy'

/** What happens to an entry whose name exists in the target. 'merge': into an existing folder, without its files. */
export type Conflict = 'refuse' | 'replace' | 'skip' | 'merge'

/** Entries of a folder. */
export interface Chosen {
  readonly from: string
  readonly names: ReadonlySet<string>
}

export interface Transfer {
  readonly kind: TransferKind
  readonly from: string
  readonly names: readonly string[]
  readonly to: string
}

/** Transfers that drops and the clipboard have started and that have not ended. */
export const transfersUnderWay = signal<readonly Transfer[]>([])

/** The rest of a transfer that has stopped because a name exists in the target: the user decides. */
export const stoppedTransfer = signal<Transfer & { readonly taken: string }>()

/** Whether the entries can be in the folder: it is another one, and neither one of them nor in one of them. */
export function isPossible({ from, names }: Chosen, to: string): boolean {
  if (to === from) return false
  if (!isWithin(from, to)) return true
  const [first = ''] = to.slice(from === '/' ? 1 : from.length + 1).split('/')
  return !names.has(first)
}

/** Transfers the entries, and stops at a name that exists. Reports how it ends. Resolves to false if it has failed. */
export async function startTransfer(transfer: Transfer): Promise<boolean> {
  transfersUnderWay.value = [...transfersUnderWay.value, transfer]
  try {
    return await reporting(
      (async () => {
        const { performTransfer } = await withTexts(import('./perform-transfer.ts')).catch((error: unknown) => {
          throw new ApiError(String(error), 'unreachable')
        })
        await performTransfer(transfer)
      })(),
    )
  } finally {
    transfersUnderWay.value = transfersUnderWay.value.filter((each) => each !== transfer)
  }
}
