/** The choices of fields and settings, by the names of the fields. Choices without a text are names themselves. */
const direction = { asc: 'Upwards', desc: 'Downwards', ASC: 'Upwards', DESC: 'Downwards' }
const changes = {
  disabled: 'Not at all',
  first: 'In the first folder',
  deterministic: 'Only what one folder has',
  deterministic_or_all: 'What one folder has, or all have',
  all: 'In every folder that has it',
  all_strict: 'Only what all folders have, in all',
}

export default {
  choices: {
    webdav_policy: {
      '302_redirect': 'From the storage itself',
      native_proxy: 'Through this server',
      use_proxy_url: 'By the download proxy',
    },
    order_by: {
      none: 'As it comes',
      name: 'Name',
      size: 'Size',
      modified: 'Time of change',
      file_name: 'Name',
      file_size: 'Size',
      file_type: 'Kind',
      user_utime: 'Time of change',
      updated_at: 'Time of change',
      created_at: 'Time of creation',
    },
    order_direction: direction,
    extract_folder: { front: 'Before the files', back: 'After the files' },
    protection: { 'as the server asks': 'As the server asks', signed: 'Signed', encrypted: 'Encrypted' },
    vendor: { other: 'Any other' },
    read_conflict_policy: { first: 'The first one', random: 'Any of the same size', all: 'Any of the same size (all)' },
    write_conflict_policy: changes,
    put_conflict_policy: {
      ...changes,
      random: 'In any folder',
      quota: 'Where there is space, if that is known',
      quota_strict: 'Only where space is known to be free',
    },
    filename_encryption: { off: 'Not encrypted', standard: 'Encrypted', obfuscate: 'Hard to read' },
    directory_name_encryption: { false: 'Not encrypted', true: 'Encrypted' },
    qrcode_source: {
      web: 'Browser',
      tv: 'Television',
      alipaymini: 'Alipay mini program',
      wechatmini: 'WeChat mini program',
    },
    drive_type: { default: 'The standard one', resource: 'Resource library', backup: 'Backup drive' },
    remove_way: { trash: 'To the recycle bin', delete: 'Gone at once' },
    alipan_type: { default: 'Usual', alipanTV: 'For televisions' },
    livp_download_format: { jpeg: 'The picture (JPEG)', mov: 'The film (MOV)' },
    search_index: {
      none: 'None: no search',
      database: 'In the database',
      database_non_full_text: 'In the database (without full text)',
    },
  },
}
