/** Moves or copies entries: the selected ones to a folder that the user chooses, or those of a stopped transfer. */
import { useState } from 'preact/hooks'
import { Dialog } from '../components/dialog.tsx'
import { textsOf } from '../texts/texts.ts'
import { useBatches, type ChangeProps } from './change.ts'
import { FolderChooser } from './folder-chooser.tsx'
import { reportTransfer, requestTransfer } from './perform-transfer.ts'
import { isPossible, stoppedTransfer, type Conflict, type TransferKind } from './transfer.ts'

const texts = textsOf('files', 'changes')

const conflicts: Readonly<Record<TransferKind, readonly Conflict[]>> = {
  move: ['refuse', 'replace', 'skip'],
  copy: ['refuse', 'replace', 'skip', 'merge'],
}

export function TransferDialog({ kind, path, names, onClose }: ChangeProps & { readonly kind: TransferKind }) {
  const [to, setTo] = useState(path)
  const [conflict, setConflict] = useState<Conflict>('refuse')
  const { done, perform } = useTransfer(kind, path, names, to, conflict)
  return (
    <Dialog
      title={texts.files[kind]}
      action={texts.files[kind]}
      disabled={!isPossible({ from: path, names: new Set(names) }, to)}
      onClose={onClose}
      onConfirm={perform}
    >
      <p>{texts.changes.to[kind](names.length, to)}</p>
      <FolderChooser path={to} onPath={setTo} />
      <ConflictField kind={kind} conflict={conflict} onConflict={setConflict} />
      {done > 0 && <p role="status">{texts.changes.progress(done, names.length)}</p>}
    </Dialog>
  )
}

/** Asks what happens to entries of a drop, or of the clipboard, whose names exist. */
export function StoppedTransferDialog() {
  const stopped = stoppedTransfer.value
  return stopped ? <ResumeDialog key={stopped.taken} {...stopped} /> : null
}

type Stopped = NonNullable<typeof stoppedTransfer.value>

function ResumeDialog({ kind, from, names, to, taken }: Stopped) {
  // Nothing is destroyed unless it is chosen.
  const [conflict, setConflict] = useState<Conflict>('skip')
  const { done, perform } = useTransfer(kind, from, names, to, conflict)
  return (
    <Dialog
      title={texts.files[kind]}
      action={texts.files[kind]}
      onClose={() => (stoppedTransfer.value = undefined)}
      onConfirm={perform}
    >
      <p>{texts.changes.to[kind](names.length, to)}</p>
      <p class="error">{texts.changes.exists(taken)}</p>
      <ConflictField kind={kind} conflict={conflict} isStopped onConflict={setConflict} />
      {done > 0 && <p role="status">{texts.changes.progress(done, names.length)}</p>}
    </Dialog>
  )
}

function useTransfer(kind: TransferKind, from: string, names: readonly string[], to: string, conflict: Conflict) {
  const batches = useBatches()
  async function perform(): Promise<void> {
    let tasks = 0
    await batches.send(names, [from, to], async (some, signal) => {
      tasks += await requestTransfer({ kind, from, names: some, to }, conflict, signal)
    })
    reportTransfer({ kind, from, names, to }, tasks)
  }
  return { done: batches.done, perform }
}

interface ConflictFieldProps {
  readonly kind: TransferKind
  readonly conflict: Conflict
  /** Whether it has stopped already, which is no choice then. */
  readonly isStopped?: boolean
  readonly onConflict: (conflict: Conflict) => void
}

function ConflictField({ kind, conflict, isStopped = false, onConflict }: ConflictFieldProps) {
  return (
    <label>
      {texts.changes.conflict}
      <select value={conflict} onChange={(event) => onConflict(event.currentTarget.value as Conflict)}>
        {conflicts[kind]
          .filter((each) => !isStopped || each !== 'refuse')
          .map((each) => (
            <option key={each} value={each}>
              {texts.changes.conflicts[each]}
            </option>
          ))}
      </select>
    </label>
  )
}
