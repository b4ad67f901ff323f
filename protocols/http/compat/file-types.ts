/** File types by extension. Clients choose icons and previews by their numbers. */
import type { z } from 'zod'
import type { ThumbnailKind } from '../../../src/contract/capabilities.js'
import { extensionOf, extensionsOf } from '../../../src/settings/file-extensions.js'
import type { ProtocolSettings } from '../../../src/gateway/protocol-gateway.js'
import { namedNumber } from '../api/schemas.js'

export const fileTypeNumbers = { unknown: 0, folder: 1, video: 2, audio: 3, text: 4, image: 5 } as const

/** The schema of a file type in responses. */
export const fileType = namedNumber('FileType', fileTypeNumbers)

/** In order of precedence: an extension in two lists has the type of the first. */
const kinds = [
  { setting: 'audio_types', type: fileTypeNumbers.audio },
  { setting: 'video_types', type: fileTypeNumbers.video },
  { setting: 'image_types', type: fileTypeNumbers.image },
  { setting: 'text_types', type: fileTypeNumbers.text },
] as const

type FileType = z.output<typeof fileType>

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
    return (name) => byExtension.get(extensionOf(name)) ?? fileTypeNumbers.unknown
  }
}

/** The kind of thumbnail for a file type; undefined for types without thumbnails. */
export function thumbnailKind(type: number): ThumbnailKind | undefined {
  return type === fileTypeNumbers.image ? 'image' : type === fileTypeNumbers.video ? 'video' : undefined
}
