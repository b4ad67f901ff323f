/** The driver type of local folders. */
import type { DriverType, OptionsOf } from '../../src/contract/driver-type.js'

export const localFields = {
  root_folder_path: {
    type: 'string',
    default: '/',
    required: true,
    suggested: true,
    basic: true,
    help: 'The folder of this machine to mount. It must exist. A relative path is resolved against the data folder.',
  },
  directory_size: {
    type: 'bool',
    default: false,
    help: 'Show the total size of each folder. Each listing then walks all folders below it.',
  },
  thumbnail: {
    type: 'bool',
    required: true,
    default: true,
    basic: true,
    help: 'Create thumbnails of images with the package sharp, and of videos with ffmpeg and ffprobe, if installed.',
  },
  thumb_cache_folder: {
    type: 'string',
    default: '',
    help: 'Folder of this machine for thumbnails, limited to 1 GiB, outside of the root folder. Empty: in the data folder.',
  },
  thumb_concurrency: {
    type: 'string',
    default: '16',
    help: 'Maximum number of thumbnails that are created concurrently; 0, empty or more than 64: 64.',
  },
  video_thumb_pos: {
    type: 'string',
    default: '20%',
    help: 'Position of the thumbnail in a video: seconds, or a percentage of its length such as 20%.',
  },
  show_hidden: { type: 'bool', default: true, help: 'Show files whose names start with a dot.' },
  mkdir_perm: { type: 'string', default: '777', help: 'Permission bits of new folders, octal, reduced by the umask.' },
  recycle_bin_path: {
    type: 'string',
    default: 'delete permanently',
    basic: true,
    help: 'Folder of this machine to which removed files are moved. Empty or "delete permanently": no recycle bin.',
  },
  sync: {
    type: 'bool',
    default: false,
    help: 'Flush each upload to the medium before it succeeds, so that it survives a power failure. Slower.',
  },
} as const

export type LocalOptions = OptionsOf<typeof localFields>

export const localType: DriverType<typeof localFields> = {
  name: 'Local',
  fields: localFields,
  facts: { uncached: true },
  traits: { caseSensitive: process.platform === 'linux' },
  async open(options, env) {
    const { openLocal } = await import('./local.js')
    return openLocal(options, env)
  },
}
