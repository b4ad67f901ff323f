/** Folders of the machine that Tidegate runs on. */
import type { DriverType, OptionsOf } from '../../src/driver.js'

export const localFields = {
  root_folder_path: {
    type: 'string',
    default: '/',
    required: true,
    onlyOffered: true,
    help: 'Folder of this machine that is shown. It must exist. A relative path starts in the data folder.',
  },
  directory_size: {
    type: 'bool',
    default: false,
    help: 'Show the size of all that a folder holds. Each listing then walks all folders below it.',
  },
  thumbnail: {
    type: 'bool',
    required: true,
    default: false,
    help: 'Make thumbnails: of images with the package sharp, of videos with ffmpeg and ffprobe, as far as they are installed.',
  },
  thumb_cache_folder: {
    type: 'string',
    default: '',
    help: 'Folder of this machine for thumbnails that are kept, 1 GiB of them; outside of the root folder. Empty: none are.',
  },
  thumb_concurrency: {
    type: 'string',
    default: '16',
    help: 'Thumbnails that are made at once; 0: as many as are asked for, 64 at most.',
  },
  video_thumb_pos: {
    type: 'string',
    default: '20%',
    help: 'Where in a video its thumbnail is taken: seconds, or a part of its length such as 20%.',
  },
  show_hidden: { type: 'bool', default: true, help: 'Show files whose names start with a dot.' },
  mkdir_perm: { type: 'string', default: '777', help: 'Permission bits of new folders, octal, less the umask.' },
  recycle_bin_path: {
    type: 'string',
    default: 'delete permanently',
    help: 'Folder of this machine to which removed files go. Empty or "delete permanently": none.',
  },
  sync: {
    type: 'bool',
    default: false,
    help: 'An upload is answered only when it is on the medium and outlives a power cut. Slower.',
  },
} as const

export type LocalOptions = OptionsOf<typeof localFields>

export const localType: DriverType<typeof localFields> = {
  name: 'Local',
  fields: localFields,
  config: { local_sort: true, only_proxy: true, no_cache: true, default_root: '/' },
  traits: { caseSensitive: process.platform === 'linux' },
  async open(options, env) {
    const { openLocal } = await import('./local.js')
    return openLocal(options, env)
  },
}
