/** Storages of made-up files and folders, for tests and demonstrations. */
import type { DriverType, OptionsOf } from '../../src/driver.js'

export const virtualFields = {
  root_folder_path: { type: 'string', help: 'Any text: with another one, other files are made up.' },
  num_file: { type: 'number', default: 30, required: true, help: 'Files in each folder.' },
  num_folder: { type: 'number', default: 30, required: true, help: 'Folders in each folder; they are two deep.' },
  max_file_size: { type: 'number', default: 1_073_741_824, required: true, help: 'Bytes; every file is smaller.' },
  min_file_size: { type: 'number', default: 1_048_576, required: true, help: 'Bytes.' },
} as const

export type VirtualOptions = OptionsOf<typeof virtualFields>

export const virtualType: DriverType<typeof virtualFields> = {
  name: 'Virtual',
  fields: virtualFields,
  config: { local_sort: true, only_proxy: true, need_ms: true },
  async open(options) {
    const { VirtualDriver } = await import('./virtual.js')
    return new VirtualDriver(options)
  },
}
