/** Responses to a read-only user: PERMISSION_DENIED (draft §7). */
import { names, string } from '../packet-client.js'
import { all, type Check, type Section } from './check.js'
import { attributes, type Ground } from './ground.js'

/** `prepared`: a file and a folder, created by a user with all permissions. */
function denied(title: string, told: string, run: Check['run']): Check {
  return {
    title,
    told,
    readOnly: true,
    run: async (ground) => {
      const owner = await ground.another()
      await owner.file('file', 'abc')
      await owner.folders('folder')
      return all(await run(ground), owner.content('file'), owner.listed())
    },
  }
}

const untouched = '"abc", file folder'
const refusal = `PERMISSION_DENIED, ${untouched}`
const fromFile = (ground: Ground) => ground.open('file', 'READ')

export const rightsSection: Section = {
  title: 'Who may only read (draft 7)',
  checks: [
    denied('A reader reads', `"abc", HANDLE, ${untouched}`, async (ground) =>
      all(ground.content('file'), ground.ask(names.opendir, ground.at())),
    ),
    denied('A reader opens to write', refusal, (ground) => ground.opens('file', 'WRITE')),
    denied('A reader opens to read and write', refusal, (ground) => ground.opens('file', 'READ WRITE')),
    denied('A reader makes a file', refusal, (ground) => ground.opens('new', 'WRITE CREAT TRUNC')),
    denied('A reader empties a file', refusal, (ground) => ground.opens('file', 'READ TRUNC WRITE')),
    denied('A reader removes a file', refusal, (ground) => ground.remove('file')),
    denied('A reader removes a folder', refusal, (ground) => ground.rmdir('folder')),
    denied('A reader makes a folder', refusal, (ground) => ground.mkdir('new')),
    denied('A reader renames', refusal, (ground) => ground.rename('file', 'other')),
    denied('A reader renames as POSIX has it', refusal, (ground) => ground.posixRename('file', 'other')),
    denied('A reader makes a symlink', refusal, (ground) => ground.symlink('file', 'link')),
    denied('A reader makes a hard link', refusal, (ground) => ground.hardLink('file', 'other')),
    denied('A reader sets permission bits', refusal, (ground) => ground.setstat('file', attributes({ mode: 0o600 }))),
    denied('A reader sets times', refusal, (ground) => ground.setstat('file', attributes({ times: 1 }))),
    denied('A reader cuts a file', refusal, (ground) => ground.setstat('file', attributes({ size: 1 }))),
    denied('A reader sets attributes by a handle', refusal, async (ground) =>
      ground.fsetstat(await fromFile(ground), attributes({ mode: 0o600 })),
    ),
    denied('A reader sets attributes of a symlink', refusal, (ground) =>
      ground.extended('lsetstat@openssh.com', ground.at('file'), attributes({ mode: 0o600 })),
    ),
    denied('A reader asks how full it is', `EXTENDED_REPLY, ${untouched}`, (ground) =>
      ground.extended('statvfs@openssh.com', ground.at()),
    ),
    denied('A reader expands a path', `…, ${untouched}`, (ground) =>
      ground.extended('expand-path@openssh.com', string(ground.path())),
    ),
  ],
}
