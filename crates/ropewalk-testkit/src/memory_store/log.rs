//! Records of logs and how far files were read, in maps.

use std::collections::BTreeMap;

use ropewalk_store::log::{Files, ImportedFile, LogChanges, RecordRow, Records};
use ropewalk_store::store::PAGE_MAX;

use super::asks::Owned;
use super::forgetting::Grave;

#[derive(Debug, Default)]
pub(super) struct Log {
    records: BTreeMap<(String, String), RecordRow>,
    files: BTreeMap<String, ImportedFile>,
}

impl Owned {
    /// Without records of sessions that were forgotten.
    pub(super) fn save_log(&mut self, mut changes: LogChanges) {
        let is_forgotten = |session: &String| self.graves.contains_key(&Grave::Session(session.clone()));
        changes.records.retain(|record| !is_forgotten(&record.session));
        self.log.save(changes);
    }
}

impl Log {
    /// How many records went.
    pub(super) fn forget(&mut self, sessions: &[String]) -> u64 {
        let before = self.records.len();
        self.records.retain(|(session, _), _| !sessions.contains(session));
        (before - self.records.len()) as u64
    }

    pub(super) fn save(&mut self, changes: LogChanges) {
        self.records
            .retain(|(session, _), _| !changes.replaced.contains(session));
        for record in changes.records {
            let name = (record.session.clone(), record.uuid.clone());
            let place = self.records.entry(name).or_insert_with(|| record.clone());
            if record.outranks(place) {
                *place = record;
            }
        }
        let files = changes.files.into_iter().map(|file| (file.path.clone(), file));
        self.files.extend(files);
    }

    pub(super) fn records(&self, which: &Records) -> Vec<RecordRow> {
        let all = self.records.iter();
        let found: Vec<RecordRow> = match which {
            Records::OfSession { session, after, limit } => all
                .filter(|((of, uuid), _)| of == session && after.as_ref().is_none_or(|after| uuid > after))
                .map(|(_, record)| record.clone())
                .take((*limit).min(PAGE_MAX))
                .collect(),
            Records::Named(names) => {
                let found = names.iter().filter_map(|name| self.records.get(name).cloned());
                found.take(PAGE_MAX).collect()
            }
            Records::All { after, limit } => all
                .filter(|(name, _)| after.as_ref().is_none_or(|after| *name > after))
                .map(|(_, record)| record.clone())
                .take((*limit).min(PAGE_MAX))
                .collect(),
        };
        found
    }

    pub(super) fn files(&self, which: &Files) -> Vec<ImportedFile> {
        match which {
            Files::Named(paths) => paths.iter().filter_map(|path| self.files.get(path).cloned()).collect(),
            Files::All { after, limit } => {
                let is_behind = |file: &&ImportedFile| after.as_ref().is_none_or(|after| file.path > *after);
                let mut files: Vec<ImportedFile> = self.files.values().filter(is_behind).cloned().collect();
                files.sort_by(|a, b| a.path.cmp(&b.path));
                files.truncate((*limit).min(PAGE_MAX));
                files
            }
        }
    }
}
