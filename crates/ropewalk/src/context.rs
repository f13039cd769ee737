//! What every verb that uses the store needs: where it is, and whose data is meant.

use std::sync::Arc;

use ropewalk_engine::Recorders;
use ropewalk_engine::link::Linker;
use ropewalk_engine::view::View;
use ropewalk_store::{Micros, Postgres, Sqlite, Store as _, StoreError, postgres, sqlite};

use crate::any_store::AnyStore;
use crate::config::{Config, DEFAULT_OWNER, Place};
use crate::failure::{Failure, Kind};
use crate::print::out::{Out, say};

pub(crate) struct Context {
    pub(crate) config: Config,
    /// Data as JSON.
    pub(crate) json: bool,
    /// What was known then, rather than what is known now.
    pub(crate) as_of: Option<Micros>,
    /// Whether what is shown is all that is: a part of something longer has no pager of its own.
    pub(crate) is_whole: bool,
}

impl Context {
    /// For what may be longer than a screen.
    pub(crate) fn out(&self) -> Out {
        match self.is_whole && !self.json {
            true => Out::paged(),
            false => Out::new(),
        }
    }

    /// The store, beside whoever writes it, at the time that was asked for. `None` where nothing was ever recorded.
    pub(crate) async fn read(&self) -> Result<Option<AnyStore>, Failure> {
        let store = self.read_now().await?;
        Ok(match self.as_of {
            Some(at) => store.map(|store| store.at_time(at)),
            None => store,
        })
    }

    /// As it is now, whatever time was asked for.
    pub(crate) async fn read_now(&self) -> Result<Option<AnyStore>, Failure> {
        match &self.config.place {
            Place::Folder(folder) if !folder.join(sqlite::FILE_NAME).exists() => Ok(None),
            Place::Folder(folder) => match Sqlite::open_read_only(folder) {
                Ok(store) => Ok(Some(AnyStore::Sqlite(Arc::new(store).on_own_thread()))),
                // A folder is one user's, so nobody else has to be asked; a database may have servers of an older version.
                Err(StoreError::TooOld { found, known }) => match self.open_to_write().await {
                    Ok(store) => Ok(Some(store)),
                    Err(StoreError::Locked) => Err(StoreError::TooOld { found, known }.into()),
                    Err(error) => Err(error.into()),
                },
                Err(error) => Err(error.into()),
            },
            Place::Postgres(url) => {
                let options = postgres::Options {
                    read_only: true,
                    ..postgres::Options::default()
                };
                Ok(Some(AnyStore::Postgres(Arc::new(
                    Postgres::connect(url, options).await?,
                ))))
            }
        }
    }

    /// The store, as its writer, for a command, which has its thread to itself.
    pub(crate) async fn open_to_write(&self) -> Result<AnyStore, StoreError> {
        Ok(match open_to_write(&self.config.place).await? {
            AnyStore::Sqlite(store) => AnyStore::Sqlite(store.on_own_thread()),
            postgres => postgres,
        })
    }

    /// Recorders into a store, by the rules of the configuration.
    pub(crate) fn recorders<'s>(&'s self, store: &'s AnyStore) -> Recorders<'s, AnyStore> {
        let config = &self.config;
        Recorders::new(store, &*config.prices, config.linking, config.spawn_tools.clone())
    }

    /// The data of the owner that was asked for; where nobody was, of the only one there is, else of the default one.
    pub(crate) async fn view<'s>(&self, store: &'s Option<AnyStore>) -> Result<Option<View<'s, AnyStore>>, Failure> {
        let Some(store) = store else {
            self.say_nothing_recorded();
            return Ok(None);
        };
        let Some(name) = self.owner_in(store).await? else {
            self.say_nothing_recorded();
            return Ok(None);
        };
        let found = store.find_owner(&name).await?;
        let owner = found.ok_or_else(|| {
            Failure::new(Kind::NotFound, format!("nothing is recorded for owner `{name}`"))
                .hint("`ropewalk stats` lists the owners")
        })?;
        if self.as_of.is_some() {
            Linker::new(store, owner, &name, self.config.linking).catch_up().await?;
        }
        Ok(Some(View::new(store, owner, name)))
    }

    /// As [`Context::view`], for verbs that are asked for something by name.
    pub(crate) async fn view_to_find<'s>(&self, store: &'s Option<AnyStore>) -> Result<View<'s, AnyStore>, Failure> {
        let view = self.view(store).await?;
        view.ok_or_else(|| {
            Failure::new(Kind::NotFound, "nothing is recorded, so nothing has that name")
                .hint("`ropewalk config --show data` says where was looked; `ropewalk demo` makes something to look at")
        })
    }

    /// Whose data a reader means. `None` where nobody has any.
    pub(crate) async fn owner_in(&self, store: &AnyStore) -> Result<Option<String>, Failure> {
        if let Some(asked) = self.config.asked_owner() {
            return Ok(Some(asked.to_owned()));
        }
        let owners = store.owners(None).await?;
        let names: Vec<&str> = owners.iter().map(|(_, name)| &**name).collect();
        match names.as_slice() {
            [] => Ok(None),
            [only] => Ok(Some((*only).to_owned())),
            several if several.contains(&DEFAULT_OWNER) => {
                say(&format!(
                    "showing owner {DEFAULT_OWNER}; also here: {}",
                    others(several)
                ));
                Ok(Some(DEFAULT_OWNER.to_owned()))
            }
            several => Err(
                Failure::new(Kind::Usage, format!("{} owners have data here", several.len()))
                    .hint(format!("say whose is meant: --owner {}", others(several))),
            ),
        }
    }

    fn say_nothing_recorded(&self) {
        let place = match &self.config.place {
            Place::Folder(folder) => folder.display().to_string(),
            Place::Postgres(_) => "the database".to_owned(),
        };
        say(&format!("nothing recorded yet in {place}"));
        say("hint: `ropewalk import PATH` brings in what other tools recorded");
    }
}

/// Less than a fifth of what the whole process may take while it records.
const CACHE_KIB: u32 = 48 << 10;

/// The store at a place, as its writer.
pub(crate) async fn open_to_write(place: &Place) -> Result<AnyStore, StoreError> {
    match place {
        Place::Folder(folder) => {
            let options = sqlite::Options {
                cache_kib: CACHE_KIB,
                ..sqlite::Options::default()
            };
            let store = Sqlite::open(folder, &options)?;
            Ok(AnyStore::Sqlite(Arc::new(store)))
        }
        Place::Postgres(url) => {
            let store = Postgres::connect(url, postgres::Options::default()).await?;
            Ok(AnyStore::Postgres(Arc::new(store)))
        }
    }
}

fn others(names: &[&str]) -> String {
    /// A list of owners is a reminder, not a directory.
    const SHOWN_MAX: usize = 5;
    let shown: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| *name != DEFAULT_OWNER)
        .take(SHOWN_MAX)
        .collect();
    shown.join(" | ")
}
