/** The requests that move and copy entries, which are loaded with the first of them. */
import { post } from '../api/client.ts'
import { report } from '../components/notices.tsx'
import { addressOf, currentPath, nameOf } from '../components/places.ts'
import { showChanges } from '../entries/folder.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { textsOf } from '../texts/texts.ts'
import { namesPerRequest, takenName } from './change.ts'
import { clearSelection, select } from './selection.ts'
import { stoppedTransfer, type Conflict, type Transfer } from './transfer.ts'

const texts = textsOf('common', 'files', 'changes')

/** Resolves to the number of tasks that the server has made of it. Rejects with `ApiError`. */
export async function requestTransfer(
  { kind, from, names, to }: Transfer,
  conflict: Conflict,
  signal?: AbortSignal,
): Promise<number> {
  const fields = {
    src_dir: from,
    dst_dir: to,
    names: [...names],
    overwrite: conflict === 'replace',
    skip_existing: conflict === 'skip',
    merge: conflict === 'merge',
  }
  const password = folderPasswords.of(to) || folderPasswords.of(from)
  const answer = await post(`/api/fs/${kind}`, fields, { password, signal })
  return answer?.tasks.length ?? 0
}

/** Reports a transfer that has ended, with a link to the target unless it is shown. */
export function reportTransfer({ kind, names, to }: Transfer, tasks: number): void {
  if (tasks > 0) report(texts.changes.tasksStarted(tasks), { href: '/@tasks', text: texts.nav.tasks })
  else {
    const link = { href: addressOf(to), text: nameOf(to) || texts.files.home }
    report(texts.changes.transferred[kind](names.length), currentPath() === to ? undefined : link)
  }
}

/** Transfers the entries. At a name that exists it stops, and leaves the rest to the user. */
export async function performTransfer(transfer: Transfer): Promise<void> {
  const { kind, from, names, to } = transfer
  let [done, tasks] = [0, 0]
  try {
    for (; done < names.length; done += namesPerRequest) {
      const some = names.slice(done, done + namesPerRequest)
      tasks += await requestTransfer({ ...transfer, names: some }, 'refuse')
    }
    reportTransfer(transfer, tasks)
    if (currentPath() === to && tasks === 0) select(names)
    else if (currentPath() === from && kind === 'move') clearSelection()
  } catch (error) {
    const taken = takenName(error)
    if (taken === undefined) throw error
    stoppedTransfer.value = { ...transfer, names: names.slice(done), taken }
  } finally {
    // A folder that cannot be listed says so on its page.
    await showChanges(from, to).catch(() => undefined)
  }
}
