/** The numbers by which clients choose icon and preview of a file. */
import type { ThumbnailKind } from '../../src/driver.js'
import { extensionOf, extensionsOf } from '../../src/extensions.js'
import type { Settings } from '../../src/settings.js'

export const folderType = 1
const videoType = 2
const imageType = 5

/** In the order in which a name is tested: an extension of two lists counts for the first. */
const kinds = [
  { setting: 'audio_types', type: 3 },
  { setting: 'video_types', type: videoType },
  { setting: 'image_types', type: imageType },
  { setting: 'text_types', type: 4 },
] as const

export type FileType = 0 | typeof folderType | (typeof kinds)[number]['type']

/** Follows the settings: an admin may change the lists at any time. */
export class FileTypes {
  readonly #settings: Settings
  #lists: readonly string[] = []
  #byExtension = new Map<string, FileType>()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /** The settings that the types depend on. */
  get lists(): readonly string[] {
    return kinds.map(({ setting }) => this.#settings.get(setting))
  }

  /** Reads the settings once; the function may then be asked for many names. */
  reader(): (name: string) => FileType {
    const { lists } = this
    if (lists.some((list, index) => list !== this.#lists[index])) {
      this.#lists = lists
      this.#byExtension = new Map()
      for (const [index, { type }] of [...kinds.entries()].reverse()) {
        for (const extension of extensionsOf(lists[index] ?? '')) this.#byExtension.set(extension, type)
      }
    }
    const byExtension = this.#byExtension
    return (name) => byExtension.get(extensionOf(name)) ?? 0
  }
}

/** What a picture can be made of; undefined for files of other types. */
export function thumbnailKind(type: number): ThumbnailKind | undefined {
  return type === imageType ? 'image' : type === videoType ? 'video' : undefined
}
