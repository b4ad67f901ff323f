/** The properties of entries. */
import { plural } from '../format.ts'

export default {
  properties: {
    kind: 'Type',
    kinds: {
      folder: 'Folder',
      image: 'Picture',
      video: 'Film',
      audio: 'Sound',
      text: 'Text',
      unknown: 'File',
    },
    created: 'Created',
    storage: 'Storage',
    space: 'Space',
    free: (free: string, total: string) => `${free} of ${total} free`,
    folder: 'Folder',
    selected: 'Selected',
    files: 'Files',
    folders: 'Folders',
    bytes: (count: number) => plural(count, { one: '# byte', other: '# bytes' }),
    rights: 'You may',
    read: 'read',
    mayDo: {
      write: 'upload and create',
      rename: 'rename',
      move: 'move',
      copy: 'copy',
      remove: 'delete',
      share: 'share',
    },
    count: 'Count',
    stop: 'Stop',
    notCounted: 'What the folders have is not counted yet.',
    countedFiles: (count: number) => plural(count, { one: '# file', other: '# files' }),
    countedFolders: (count: number) => plural(count, { one: '# folder', other: '# folders' }),
    incomplete: (unread: number) =>
      unread === 0
        ? 'There is more: the count has ended before.'
        : `There may be more: ${plural(unread, { one: '# folder', other: '# folders' })} could not be read.`,
  },
}
