/** A kind of driver: what an administrator sees of it, its options, and how it is opened. */
import type { Path } from '../base/path.js'
import type { DriverEnv } from './driver-env.js'
import type { Driver } from './driver.js'
import type { Traits } from './traits.js'

export const fieldTypes = ['string', 'text', 'number', 'float', 'bool', 'select'] as const

/** One option of a driver. Defines the field of the admin form, its validation and its type. */
export interface Field {
  readonly type: (typeof fieldTypes)[number]
  readonly default?: string | number | boolean
  /** The option must have a value. If it is omitted or empty, the default applies; without a default it is an error. */
  readonly required?: boolean
  /**
   * Whether the default of a required field is only a suggestion in the form, and does not apply if the field is
   * omitted.
   */
  readonly suggested?: boolean
  /** Allowed values of a `select`. */
  readonly options?: readonly string[]
  readonly help?: string
  /** Whether the value is a secret, which is never shown in a log. */
  readonly secret?: boolean
  /** Whether white space around a text is not part of the value: for what is copied from elsewhere, such as a token. */
  readonly trimmed?: boolean
  /** Whether the form shows it at once: what everybody has to enter or to look at. At most four of a driver. */
  readonly basic?: boolean
  /** Whether the value is a path of the tree, or in a `text` one on each line, as `path` or `name:path`. */
  readonly treePath?: boolean
  /** Whether the backend accepts the value once, and what it answers has to be stored: it cannot be tried before. */
  readonly singleUse?: boolean
}
export type Fields = Readonly<Record<string, Field>>

type ValueOf<F extends Field> = F['type'] extends 'number' | 'float'
  ? number
  : F['type'] extends 'bool'
    ? boolean
    : string
/** The options that a driver is opened with: every field is present, with defaults filled in. */
export type OptionsOf<F extends Fields> = { readonly [K in keyof F]: ValueOf<F[K]> }

/** Facts about a driver from which a protocol derives which options a storage has, and their defaults. */
export interface DriverFacts {
  /** 'preferred': clients should download from the backend's own URLs; 'possible': only if the admin asks for it. */
  readonly directUrls?: 'preferred' | 'possible'
  /** Listings need no cache: the backend lists fast, or another storage has cached them. */
  readonly uncached?: boolean
  /** The files are those of other storages. */
  readonly composite?: boolean
  /** Each process has files of its own. Storages of this type do not run while several processes serve the tree. */
  readonly perProcess?: boolean
  /** Storages of this type cannot be written to. */
  readonly readOnly?: boolean
  /** The driver expects messages from the admin. */
  readonly interactive?: boolean
  /** The tool for offline downloads by storages of this type, which implement `RemoteDownloads`. */
  readonly downloadTool?: DownloadToolFacts
  /** Shown to the admin as a warning. */
  readonly warning?: string
}

export interface DownloadToolFacts {
  /** The name that users request, such as '115 Cloud'. */
  readonly name: string
  /**
   * The key of the setting that names a folder in a storage of this type. What is downloaded for other storages is put
   * there first.
   */
  readonly folderSetting: string
}

/** A folder of the tree that a storage shows. */
export interface ShownFolder {
  readonly path: Path
  /** The path in the storage at which the folder appears; undefined if names differ there. */
  readonly at: Path | undefined
}

/**
 * A sign-in at the backend by a QR code, which somebody scans with the app of the backend and confirms there. What it
 * needs between two calls is in `ticket`, which a client keeps: it is as hostile as any input.
 */
export interface QrSignIn {
  /** The field beside which a form offers it. */
  readonly field: string
  /** Asks the backend for a code. `options`: what a form has so far, unchecked. Rejects as `open`. */
  begin(options: Readonly<Record<string, unknown>>, env: DriverEnv): Promise<QrCode>
  /** Asks the backend what became of the code, and may wait some seconds for it. Rejects as `open`. */
  ask(ticket: string, env: DriverEnv): Promise<QrAnswer>
}

export interface QrCode {
  /** What the picture says. */
  readonly text: string
  /** At most 2000 characters. */
  readonly ticket: string
}

/** The states of a code that is not confirmed. 'refused': by the user of the app. */
export const openQrStates = ['waiting', 'scanned', 'expired', 'refused'] as const

export type QrAnswer =
  | { readonly state: (typeof openQrStates)[number] }
  /** `values`: of the fields that the sign-in sets. */
  | { readonly state: 'confirmed'; readonly values: Readonly<Record<string, string>> }

export interface DriverType<F extends Fields = Fields> {
  /** Name shown to the admin, such as 'Local'. */
  readonly name: string
  readonly fields: F
  readonly facts?: DriverFacts
  readonly traits?: Partial<Traits>
  readonly qrSignIn?: QrSignIn
  /**
   * For a composite driver: returns the folders that a storage with these options shows. Throws `invalid` where `open`
   * rejects with it.
   */
  shows?(options: OptionsOf<F>): readonly ShownFolder[]
  /** Imports the implementation on demand. Rejects if the backend cannot be used. */
  open(options: OptionsOf<F>, env: DriverEnv): Promise<Driver>
}

/** A driver type with any fields, for tables of driver types. */
export interface AnyDriverType extends Omit<DriverType, 'open'> {
  open(options: never, env: DriverEnv): Promise<Driver>
}

/** A driver type for those who show it or check its options, and open no driver. */
export type DriverDescription = Omit<AnyDriverType, 'open'>
