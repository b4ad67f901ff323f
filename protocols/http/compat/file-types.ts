/** File types by extension. Clients choose icons and previews by their numbers. */
import type { ThumbnailKind } from '../../../src/contract/capabilities.js'
import { extensionOf, extensionsOf } from '../../../src/settings/file-extensions.js'
import type { ProtocolSettings } from '../../../src/gateway/protocol-gateway.js'

export const folderType = 1
const videoType = 2
const imageType = 5

/** In order of precedence: an extension in two lists has the type of the first. */
const kinds = [
  { setting: 'audio_types', type: 3 },
  { setting: 'video_types', type: videoType },
  { setting: 'image_types', type: imageType },
  { setting: 'text_types', type: 4 },
] as const

type FileType = 0 | typeof folderType | (typeof kinds)[number]['type']

/** Determines the type of a file from its extension and the current settings. */
export class FileTypes {
  readonly #settings: ProtocolSettings
  #lists: readonly string[] = []
  #byExtension = new Map<string, FileType>()

  constructor(settings: ProtocolSettings) {
    this.#settings = settings
  }

  /** The values of the settings that determine the types. */
  get settingValues(): readonly string[] {
    return kinds.map(({ setting }) => this.#settings.get(setting))
  }

  /** Returns a function from a file name to its type. It uses the settings as of this call. */
  classifier(): (name: string) => FileType {
    const { settingValues: lists } = this
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

/** The kind of thumbnail for a file type; undefined for types without thumbnails. */
export function thumbnailKind(type: number): ThumbnailKind | undefined {
  return type === imageType ? 'image' : type === videoType ? 'video' : undefined
}
