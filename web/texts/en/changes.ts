/** The dialogs that change files, and links to files. */
import { number, plural } from '../format.ts'

export default {
  changes: {
    selected: 'Selected entries',
    exists: (name: string) => `“${name}” exists already.`,
    folderMade: (name: string) => `The folder “${name}” is created.`,
    fileMade: (name: string) => `The file “${name}” is created.`,
    renamed: (from: string, to: string) => `“${from}” is now “${to}”.`,
    renamedMany: (count: number) => plural(count, { one: '# entry is renamed.', other: '# entries are renamed.' }),
    removeOneWarning: (name: string) =>
      `“${name}” will be deleted. If it is a folder, so will everything in it. This cannot be undone.`,
    removeWarning: (count: number) =>
      `These ${number(count)} entries will be deleted, folders with everything in them. This cannot be undone.`,
    removed: (count: number) => plural(count, { one: '# entry is deleted.', other: '# entries are deleted.' }),
    progress: (done: number, total: number) => `${number(done)} of ${number(total)} done`,
    folders: 'Folders',
    choose: 'Choose …',
    newFolderIn: (folder: string) => `Name of the new folder in ${folder}`,
    create: 'Create',
    to: {
      move: (count: number, folder: string) =>
        `Move ${plural(count, { one: '# entry', other: '# entries' })} to ${folder}`,
      copy: (count: number, folder: string) =>
        `Copy ${plural(count, { one: '# entry', other: '# entries' })} to ${folder}`,
    },
    transferred: {
      move: (count: number) => plural(count, { one: '# entry is moved.', other: '# entries are moved.' }),
      copy: (count: number) => plural(count, { one: '# entry is copied.', other: '# entries are copied.' }),
    },
    tasksStarted: (count: number) =>
      plural(count, { one: 'A task does this in the background.', other: '# tasks do this in the background.' }),
    conflict: 'If a name exists there',
    conflicts: {
      refuse: 'Stop',
      replace: 'Replace it',
      skip: 'Skip it',
      merge: 'Merge folders, skip files',
    },
    scheme: 'How',
    schemes: { replace: 'Find and replace', number: 'Name and number' },
    find: 'Find',
    replacement: 'Replace with',
    isRegex: 'Regular expression',
    keepsExtension: 'Keep what follows the last dot',
    pattern: 'Name, with # for the number',
    firstNumber: 'First number',
    preview: 'Preview',
    unchanged: 'stays as it is',
    problems: {
      invalid: 'is not a valid name',
      taken: 'exists already',
      repeated: 'is the name of several entries',
      exchanged: 'is the old name of another entry, and the other way around',
    },
    notRegex: 'This is not a regular expression.',
    plan: (changed: number, total: number) => `${number(changed)} of ${number(total)} names will change.`,
    planFails: (problems: number) =>
      plural(problems, {
        one: '# new name is not possible: nothing is renamed.',
        other: '# new names are not possible: nothing is renamed.',
      }),
    linkHint: (name: string) => `Whoever has this link can read “${name}” without an account.`,
    linkValidity: 'Expires',
    validities: { hour: 'in an hour', day: 'in a day', week: 'in a week', month: 'in 30 days', never: 'never' },
    linkAddress: 'Address',
    linkForEver: 'The link does not expire.',
    linkUntil: (time: string) => `The link works until ${time}.`,
    copyLink: 'Copy link',
    linkCopied: 'The link is copied.',
  },

  fromUrls: {
    about: 'The server downloads the files into this folder. Progress is shown under Tasks.',
    urls: 'URLs, one in each line',
    folder: 'Folder',
    tool: 'Download with',
    start: 'Download',
    started: 'The download has started.',
  },
}
