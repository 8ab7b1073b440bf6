//! Kubernetes kinds of causeway and thin types of the foreign kinds it uses
