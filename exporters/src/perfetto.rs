//! Perfetto's protobuf.
use crate::export::{ExportError, ExportReport};
use crate::model::{Model, Process};
use crate::order::Visitor;
use crate::out::Output;
use strandline::record::Record;
pub(crate) struct Perfetto<'o> {
    out: Output<'o>,
}
impl<'o> Perfetto<'o> {
    pub(crate) fn new(_model: &Model<'_>, out: Output<'o>) -> Result<Self, ExportError> {
        Ok(Self { out })
    }
    pub(crate) fn finish(
        self,
        _model: &mut Model<'_>,
        _report: &mut ExportReport,
    ) -> Result<(Vec<std::path::PathBuf>, u64), ExportError> {
        self.out.commit()
    }
}
impl Visitor for Perfetto<'_> {
    fn item(&mut self, _: &mut Process<'_>, _: usize, _: &Record<'_>, _: u64, _: u64) -> Result<(), ExportError> {
        Ok(())
    }
    fn bytes(&self) -> u64 {
        0
    }
}
